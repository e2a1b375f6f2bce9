// SPDX-License-Identifier: Apache-2.0
// The `ingot` command against a real store: exit statuses, and the JSON that docs/cli.md promises.
#include <sys/wait.h>

#include <cstdio>

#include "tests/integration/real_daemon.h"

namespace ingot::testing {
namespace {

struct Ran {
  int status = -1;
  std::string out;
  json Json() const { return json::parse(out, nullptr, /*allow_exceptions=*/false); }
};

class CliTest : public RealDaemonTest {
 protected:
  void SetUp() override {
    const auto connection = Open();
    ASSERT_TRUE(connection);
    ASSERT_TRUE(connection->Compile(RequestFor("pkg.f", {4})));
    ASSERT_TRUE(connection->Compile(RequestFor("pkg.f", {6})));
    ASSERT_TRUE(connection->Lookup(*KeyOf("pkg.f")));
  }
  Ran Run(const std::string& arguments) const {
    const std::string command = std::string(INGOT_CLI) + " --store " + dir_ + "/store --socket " +
                                dir_ + "/run/s " + arguments + " 2>&1";
    Ran ran;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return ran;
    char piece[4096];
    while (const size_t got = fread(piece, 1, sizeof piece, pipe)) ran.out.append(piece, got);
    const int status = pclose(pipe);
    ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ran;
  }
};

TEST_F(CliTest, PrintsTheDocumentedJson) {
  const json status = Run("daemon status --json").Json();
  for (const char* name : {"pid", "socket", "store", "store_state", "store_trouble", "version",
                           "build", "uptime_s", "clients", "flights", "compiles_pending"}) {
    EXPECT_TRUE(status.contains(name)) << name;
  }
  EXPECT_TRUE(std::filesystem::equivalent(status["store"].get<std::string>(), dir_ + "/store"));
  EXPECT_EQ(Run("stats --json").Json()["compiles"], 2);
  const json list = Run("list --json").Json()["entries"];
  ASSERT_EQ(list.size(), 1u);
  for (const char* name : {"key", "function", "variants", "bytes", "hits", "compile_s", "created",
                           "last_use", "pinned", "rank", "target", "failed"}) {
    EXPECT_TRUE(list[0].contains(name)) << name;
  }
  const std::string key = list[0]["key"];
  const json entry = Run("inspect " + key.substr(0, 6) + " --json").Json();
  EXPECT_EQ(entry["key"], key);
  ASSERT_EQ(entry["variants"].size(), 2u);
  const json& made = entry["variants"][0]["provenance"];
  EXPECT_EQ(made["native_steps"], 1);
  EXPECT_EQ(made["aten_steps"], 0);
  EXPECT_TRUE(made.contains("arena_bytes"));
  EXPECT_EQ(entry["components"][1]["items"][0]["text"], "SiLU");
  EXPECT_EQ(Run("why-miss pkg.f --json").Json()["reason"], "stored");
  EXPECT_EQ(Run("verify --recompile --json").Json()["problems"], json::array());
  EXPECT_EQ(Run("doctor --json").Json()["ok"], true);
  EXPECT_GT(Run("config --json").Json()["fields"].size(), 20u);
  EXPECT_EQ(Run("gc --json").Json()["evicted"], 0);
  EXPECT_TRUE(Run("daemon log --json").Json().contains("file"));
}

TEST_F(CliTest, LogsChangesOfState) {
  const std::string log = Run("daemon log").out;
  EXPECT_NE(log.find("serves pid="), std::string::npos) << log;
  EXPECT_NE(log.find("opened the store state="), std::string::npos) << log;
  EXPECT_NE(log.find("started a worker worker="), std::string::npos) << log;
}

TEST_F(CliTest, EndsWithTheNumberOfTheErrorCode) {
  EXPECT_EQ(Run("inspect zzz").status, static_cast<int>(Code::kNotFound));
  EXPECT_EQ(Run("why-miss zzz").status, static_cast<int>(Code::kNotFound));
  EXPECT_EQ(Run("retry zzz").status, static_cast<int>(Code::kNotFound));
  EXPECT_EQ(Run("inspect").status, static_cast<int>(Code::kInvalid));
  EXPECT_EQ(Run("dance").status, static_cast<int>(Code::kInvalid));
  EXPECT_EQ(Run("list --frob").status, static_cast<int>(Code::kInvalid));
  EXPECT_EQ(Run("--help").status, 0);
  EXPECT_EQ(Run("list").status, 0);
  Stop();
  EXPECT_EQ(Run("daemon status").status, static_cast<int>(Code::kUnavailable));
}

TEST_F(CliTest, PinsEvictsAndExplains) {
  EXPECT_EQ(Run("pin pkg.f").status, 0);
  EXPECT_EQ(Run("list --json").Json()["entries"][0]["pinned"], true);
  EXPECT_EQ(Run("unpin f").status, 0);
  EXPECT_EQ(Run("evict pkg.f --json").Json()["artifacts"], 2);
  const Ran why = Run("why-miss pkg.f --json");
  EXPECT_EQ(why.Json()["reason"], "evicted") << why.out;
  EXPECT_EQ(Run("list").out, "no entries\n");
}

TEST_F(CliTest, NamesWhatChangedInAFunction) {
  const auto connection = Open();
  proto::CompileT edited = RequestFor("pkg.f", {4});
  edited.key = KeyOf("pkg.f", "GELU");
  ASSERT_TRUE(connection->Compile(edited));
  const json why = Run("why-miss pkg.f --json").Json();
  EXPECT_EQ(why["component"], "module_state");
  EXPECT_EQ(why["item"], "model.act_fn");
}

}  // namespace
}  // namespace ingot::testing
