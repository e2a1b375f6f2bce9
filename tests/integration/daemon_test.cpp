// SPDX-License-Identifier: Apache-2.0
// Daemon, worker and compiler as they are installed, from a recording to machine code; read by
// what the counters say.
#include <csignal>
#include <set>
#include <sstream>
#include <thread>

#include "client/lib/artifact/loaded_artifact.h"
#include "tests/integration/real_daemon.h"
#include "tests/support/eventually.h"

namespace ingot::support {
namespace {

using client::LoadedArtifact;
using proto::Outcome;
using proto::VariantKind;

class IntegrationTest : public RealDaemonTest {
 protected:
  /// Processes whose parent this is.
  std::vector<pid_t> ChildrenOf(pid_t parent) const {
    std::vector<pid_t> children;
    for (const auto& task : std::filesystem::directory_iterator(TaskDir(parent))) {
      std::ifstream file(task.path() / "children");
      for (pid_t child = 0; file >> child;) children.push_back(child);
    }
    return children;
  }
  /// Clock ticks the process has used.
  uint64_t TicksOf(pid_t process) const {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(std::min(text.rfind(')') + 2, text.size())));
    std::string field;
    uint64_t user = 0;
    uint64_t system = 0;
    for (int i = 3; i < 14; ++i) fields >> field;
    fields >> user >> system;
    return user + system;
  }
  std::string TaskDir(pid_t process) const { return "/proc/" + std::to_string(process) + "/task"; }
  std::string DirOfStore() const { return proto::ResolveEndpoint(dir_ + "/store")->home + "/db"; }
};

Result<std::shared_ptr<const LoadedArtifact>> Load(client::CompileAnswer& answer) {
  const proto::VariantT& variant = *answer.reply.variant;
  return LoadedArtifact::Open(std::move(answer.file), {variant.artifact_low, variant.artifact_high});
}

TEST_F(IntegrationTest, CompilesARecordingToAnArtifactThatOpens) {
  const auto connection = Open();
  ASSERT_TRUE(connection);
  auto answer = connection->Compile(RequestFor("f", {4}));
  ASSERT_TRUE(answer) << answer.error().ToText();
  EXPECT_EQ(answer->reply.outcome, Outcome::Compiled);
  const auto artifact = Load(*answer);
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  ASSERT_EQ((*artifact)->manifest().steps()->size(), 1u);
  EXPECT_EQ((*artifact)->manifest().steps()->Get(0)->kind(), proto::StepKind::Kernel);
  EXPECT_NE((*artifact)->kernel(0), nullptr);

  auto hit = connection->Lookup(*KeyOf("f"));
  ASSERT_TRUE(hit && hit->reply.found);
  EXPECT_EQ(Ask(*connection, "stats")["entry_hits"], 1);
  EXPECT_EQ(Ask(*connection, "stats")["compiles"], 1);
  Stop();
  // Another process, the same store: nothing is compiled again.
  const auto later = Open();
  hit = later->Lookup(*KeyOf("f"));
  ASSERT_TRUE(hit && hit->reply.found);
  ASSERT_EQ(hit->files.size(), 1u);
  const proto::VariantT& variant = *hit->reply.variants.at(0);
  EXPECT_TRUE(LoadedArtifact::Open(std::move(hit->files[0]), {variant.artifact_low, variant.artifact_high}));
  EXPECT_EQ(Ask(*later, "stats")["compiles"], 0);
}

// What the sandbox keeps from the compiler must not be in what it makes; a proof that could not run would be missing.
TEST_F(IntegrationTest, CompilesToTheSameBytesInTheSandboxAndOutside) {
  std::set<std::pair<uint64_t, uint64_t>> artifacts;
  for (const char* sandbox : {"required", "off"}) {
    client::ConnectionOptions options = Options();
    // Enough for every kernel, whatever else the machine does.
    for (const char* argument : {"--prove-ms-max", "60000", "--worker-sandbox", sandbox}) {
      options.daemon_arguments.push_back(argument);
    }
    auto connection = client::Connection::Open(options);
    ASSERT_TRUE(connection) << connection.error().ToText();
    auto answer = (*connection)->Compile(RequestFor("f", {4, 7}));
    ASSERT_TRUE(answer) << sandbox << ": " << answer.error().ToText();
    artifacts.emplace(answer->reply.variant->artifact_low, answer->reply.variant->artifact_high);
    const auto artifact = Load(*answer);
    ASSERT_TRUE(artifact) << artifact.error().ToText();
    const auto* proofs = (*artifact)->manifest().provenance()->proofs();
    ASSERT_TRUE(proofs != nullptr && proofs->size() != 0) << sandbox;
    for (const auto* proof : *proofs) EXPECT_GT(proof->rows_run(), 0u) << sandbox;
    const json doctor = Ask(**connection, "doctor");
    EXPECT_EQ(doctor["ok"], true);
    // "required" was enough to compile, so it says that files and calls are closed.
    const std::string closed = "files closed (landlock), system calls by a list (seccomp)";
    EXPECT_EQ(doctor.dump().find(closed) != std::string::npos, std::string(sandbox) == "required") << doctor.dump();
    connection->reset();
    Stop();
    std::filesystem::remove_all(dir_ + "/store");
  }
  EXPECT_EQ(artifacts.size(), 1u);
}

TEST_F(IntegrationTest, CompilesOnceForEightClientsOfOneKey) {
  std::vector<std::thread> clients;
  std::atomic<int> served{0};
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      const auto connection = Open();
      if (connection == nullptr) return;
      auto answer = connection->Compile(RequestFor("f", {4}));
      if (answer && Load(*answer)) ++served;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(served, 8);
  const auto connection = Open();
  const json stats = Ask(*connection, "stats");
  EXPECT_EQ(stats["compiles"], 1);
  EXPECT_EQ(stats["joins"].get<int>() + stats["graph_hits"].get<int>(), 7);
}

TEST_F(IntegrationTest, MakesATemplateOfTheSecondSizeAndProvesTheThird) {
  const auto connection = Open();
  auto first = connection->Compile(RequestFor("f", {4}));
  ASSERT_TRUE(first) << first.error().ToText();
  EXPECT_EQ(first->reply.variant->kind, VariantKind::Exact);
  auto second = connection->Compile(RequestFor("f", {6}));
  ASSERT_TRUE(second) << second.error().ToText();
  EXPECT_EQ(second->reply.outcome, Outcome::Compiled);
  EXPECT_EQ(second->reply.variant->kind, VariantKind::Template);
  EXPECT_EQ(second->reply.variant->proven, (std::vector<int64_t>{4, 6}));
  auto third = connection->Compile(RequestFor("f", {7}));
  ASSERT_TRUE(third) << third.error().ToText();
  EXPECT_EQ(third->reply.outcome, Outcome::Proven);
  EXPECT_EQ(third->reply.variant->proven, (std::vector<int64_t>{4, 6, 7}));
  const json stats = Ask(*connection, "stats");
  EXPECT_EQ(stats["compiles"], 2);
  EXPECT_EQ(stats["proven"], 1);
}

TEST_F(IntegrationTest, ShowsAGraphAtEachStage) {
  const auto connection = Open();
  auto answer = connection->Compile(RequestFor("f", {4}));
  ASSERT_TRUE(answer) << answer.error().ToText();
  const proto::VariantT& variant = *answer->reply.variant;
  const std::string graph = Digest{variant.graph_low, variant.graph_high}.ToHex();
  const auto text = [&](const char* stage) {
    return Ask(*connection, "text", {{"graph", graph}, {"stage", stage}})["text"].get<std::string>();
  };
  EXPECT_NE(text("graph").find("aten.silu"), std::string::npos) << text("graph");
  EXPECT_NE(text("optimized").find("f32[4, 16]"), std::string::npos) << text("optimized");
  EXPECT_NE(text("loop").find("kernel"), std::string::npos) << text("loop");
  EXPECT_NE(text("llvm").find("define"), std::string::npos) << text("llvm");
  EXPECT_NE(text("asm").find("ret"), std::string::npos) << text("asm");
}

TEST_F(IntegrationTest, VerifiesItsStoreAndCompilesToTheSameBytes) {
  const auto connection = Open();
  ASSERT_TRUE(connection->Compile(RequestFor("f", {4})));
  ASSERT_TRUE(connection->Compile(RequestFor("f", {6})));
  const json verified = Ask(*connection, "verify", {{"recompile", true}});
  EXPECT_EQ(verified["problems"], json::array());
  EXPECT_EQ(verified["recompiled"], 2);
  EXPECT_GT(verified["checked"], 4);
}

TEST_F(IntegrationTest, NeverServesAnArtifactDamagedOnDisk) {
  {
    const auto connection = Open();
    ASSERT_TRUE(connection->Compile(RequestFor("f", {4})));
  }
  Stop();
  // The artifact is by far the largest value, so the largest table file holds it.
  std::filesystem::path largest;
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(DirOfStore())) {
    const std::string kind = file.path().extension();
    if ((kind != ".sst" && kind != ".blob") || file.file_size() <= bytes) continue;
    largest = file.path();
    bytes = file.file_size();
  }
  ASSERT_FALSE(largest.empty());
  {
    std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<long>(bytes / 2));
    const char was = static_cast<char>(file.get());
    file.seekp(static_cast<long>(bytes / 2));
    file.put(static_cast<char>(was ^ 1));
  }
  const auto connection = Open();
  auto miss = connection->Lookup(*KeyOf("f"));
  ASSERT_TRUE(miss) << miss.error().ToText();
  EXPECT_FALSE(miss->reply.found);
  EXPECT_GE(Ask(*connection, "stats")["store_corrupt"], 1);
  auto again = connection->Compile(RequestFor("f", {4}));
  ASSERT_TRUE(again) << again.error().ToText();
  EXPECT_EQ(again->reply.outcome, Outcome::Compiled);
  EXPECT_TRUE(Load(*again));
  EXPECT_TRUE(connection->Lookup(*KeyOf("f"))->reply.found);
}

TEST_F(IntegrationTest, TurnsTheDeathOfAWorkerIntoAnError) {
  const auto connection = Open();
  // The first job makes sure that the worker runs and waits.
  ASSERT_TRUE(connection->Compile(RequestFor("f", {4})));
  const std::vector<pid_t> workers = ChildrenOf(static_cast<pid_t>(connection->daemon_pid()));
  ASSERT_EQ(workers.size(), 1u);
  const uint64_t ticks = TicksOf(workers[0]);
  std::thread killer([&] {
    EXPECT_TRUE(Eventually([&] { return TicksOf(workers[0]) >= ticks + 5; }));
    kill(workers[0], SIGKILL);
  });
  auto crashed = connection->Compile(LongRequest("long"));
  killer.join();
  ASSERT_FALSE(crashed);
  EXPECT_EQ(crashed.error().code(), Code::kInternal);
  EXPECT_NE(crashed.error().message().find("signal 9"), std::string::npos) << crashed.error().message();
  auto remembered = connection->Compile(LongRequest("long"));
  ASSERT_FALSE(remembered);
  EXPECT_NE(remembered.error().message().find("failed earlier"), std::string::npos);
  EXPECT_EQ(Ask(*connection, "stats")["worker_crashes"], 1);
  EXPECT_TRUE(connection->Compile(RequestFor("g", {5})));
  EXPECT_TRUE(Ask(*connection, "retry", {{"key", "long"}})["cleared"].get<int>() > 0);
}

TEST_F(IntegrationTest, StartsADaemonInPlaceOfAKilledOne) {
  const auto connection = Open();
  ASSERT_TRUE(connection->Compile(RequestFor("f", {4})));
  const uint32_t first = connection->daemon_pid();
  kill(static_cast<pid_t>(first), SIGKILL);
  WaitUntilGone();
  auto lost = connection->Lookup(*KeyOf("f"));
  EXPECT_TRUE(lost || lost.error().code() == Code::kUnavailable);
  auto hit = connection->Lookup(*KeyOf("f"));
  ASSERT_TRUE(hit) << hit.error().ToText();
  EXPECT_TRUE(hit->reply.found);
  EXPECT_NE(connection->daemon_pid(), first);
}

TEST_F(IntegrationTest, FinishesACompileBeforeItEndsOnSigterm) {
  const auto connection = Open();
  const auto watcher = Open();
  std::thread terminator([&] {
    EXPECT_TRUE(Eventually([&] { return Ask(*watcher, "status")["compiles_pending"] != 0; }));
    kill(static_cast<pid_t>(watcher->daemon_pid()), SIGTERM);
  });
  auto answer = connection->Compile(LongRequest("long"));
  terminator.join();
  ASSERT_TRUE(answer) << answer.error().ToText();
  EXPECT_TRUE(Load(*answer));
  WaitUntilGone();
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/run/s"));
}

}  // namespace
}  // namespace ingot::support
