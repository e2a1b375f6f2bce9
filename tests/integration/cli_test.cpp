// SPDX-License-Identifier: Apache-2.0
// The `ingot` command against a real store: exit statuses, and the JSON that docs/cli.md promises.
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "tests/integration/real_daemon.h"

namespace ingot::support {
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
    return RunLine("--store " + dir_ + "/store --socket " + dir_ + "/run/s " + arguments);
  }
  Ran RunLine(const std::string& arguments) const {
    const std::string command = std::string(INGOT_CLI) + " " + arguments + " 2>&1";
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
  for (const char* name : {"pid", "socket", "store", "store_state", "store_trouble", "version", "build", "uptime_s",
                           "clients", "flights", "compiles_pending"}) {
    EXPECT_TRUE(status.contains(name)) << name;
  }
  EXPECT_TRUE(std::filesystem::equivalent(status["store"].get<std::string>(), dir_ + "/store"));
  EXPECT_EQ(Run("stats --json").Json()["compiles"], 2);
  const json list = Run("list --json").Json()["entries"];
  ASSERT_EQ(list.size(), 1u);
  for (const char* name : {"key", "function", "variants", "bytes", "hits", "compile_s", "created", "last_use", "pinned",
                           "rank", "target", "failed"}) {
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
  ASSERT_EQ(made["proofs"].size(), 1u);
  EXPECT_GT(made["proofs"][0]["rows_run"], 0);
  EXPECT_EQ(made["proofs"][0]["skipped"], "");
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

TEST_F(CliTest, TakesOptionsBeforeAndAfterTheVerb) {
  const std::string where = "--store " + dir_ + "/store";
  for (const std::string& line : {where + " list --json", "list " + where + " --json", "list --json " + where,
                                  "list pkg " + where + " --json", "daemon status --json " + where}) {
    const Ran ran = RunLine(line);
    EXPECT_EQ(ran.status, 0) << line << ": " << ran.out;
    EXPECT_TRUE(ran.Json().is_object()) << line;
  }
}

TEST_F(CliTest, ReadingStartsStopsAndMakesNothing) {
  const uint32_t pid = Run("daemon status --json").Json()["pid"];
  for (const char* verb : {"stats", "list", "inspect pkg.f", "why-miss pkg.f", "ranks pkg.f", "text pkg.f", "doctor",
                           "config", "daemon status", "daemon log"}) {
    EXPECT_EQ(Run(verb).status, 0) << verb;
  }
  EXPECT_EQ(Run("daemon status --json").Json()["pid"], pid);
  Stop();
  for (const char* verb : {"stats", "list", "inspect f", "why-miss f", "ranks f", "diff f f", "text f", "doctor",
                           "daemon status", "daemon stop"}) {
    const Ran ran = Run(verb);
    EXPECT_EQ(ran.status, static_cast<int>(Code::kUnavailable)) << verb;
    const std::string store = std::filesystem::weakly_canonical(dir_ + "/store").string();
    EXPECT_NE(ran.out.find("no daemon serves " + store), std::string::npos) << ran.out;
  }
  EXPECT_NE(Run("daemon log").out.find("exits pid="), std::string::npos);
  EXPECT_NE(Run("config").out.find("no daemon runs"), std::string::npos);
  EXPECT_FALSE(proto::LockFile::HolderOf(proto::ResolveEndpoint(dir_ + "/store")->lock_path()));
  EXPECT_EQ(RunLine("list --store " + dir_ + "/other").status, static_cast<int>(Code::kUnavailable));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/other"));
  EXPECT_EQ(Run("gc").status, 0) << "what changes the store starts a daemon";
}

TEST_F(CliTest, SaysWhereASettingComesFrom) {
  const auto sources = [&](const Ran& ran) {
    std::map<std::string, std::string> found;
    const json all = ran.Json();
    for (const json& field : all["fields"]) found[field["name"]] = field["source"];
    return found;
  };
  EXPECT_EQ(sources(Run("config --json"))["workers"], "--workers");
  EXPECT_EQ(sources(Run("config --json"))["gc_grace_s"], "default");
  std::ofstream(dir_ + "/ingot.toml") << "[daemon]\n# seconds\nidle_exit_s = 60\n";
  setenv("INGOT_CONFIG", (dir_ + "/ingot.toml").c_str(), 1);
  EXPECT_EQ(sources(RunLine("config --json --store " + dir_ + "/other"))["idle_exit_s"], dir_ + "/ingot.toml:3");
  std::ofstream(dir_ + "/ingot.toml") << "[daemon]\nidle_exit = 60\n";
  const Ran wrong = RunLine("config");
  unsetenv("INGOT_CONFIG");
  EXPECT_EQ(wrong.status, static_cast<int>(Code::kInvalid));
  EXPECT_NE(wrong.out.find("ingot.toml:2: no field 'idle_exit'"), std::string::npos) << wrong.out;
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

TEST_F(CliTest, SaysInOneLineWhatIsWrongWithALine) {
  const auto wrong = [&](const std::string& line) {
    const Ran ran = RunLine(line);
    EXPECT_EQ(ran.status, static_cast<int>(Code::kInvalid)) << line;
    return ran.out;
  };
  EXPECT_EQ(wrong(""), "ingot: invalid: name a verb; `ingot --help` lists them\n");
  EXPECT_EQ(wrong("lst"), "ingot: invalid: no verb 'lst'; `ingot --help` lists them\n");
  EXPECT_EQ(wrong("daemon strat"), "ingot: invalid: no verb 'strat'; `ingot daemon --help` lists them\n");
  EXPECT_EQ(wrong("pin a b"), "ingot: invalid: unexpected 'b'; `ingot pin --help` says what it takes\n");
  EXPECT_EQ(wrong("list -n x"),
            "ingot: invalid: --limit: x: a whole number is wanted; `ingot list --help` says what it takes\n");
  EXPECT_EQ(wrong("completion"), "ingot: invalid: name one shell: bash, zsh or fish\n");
  EXPECT_EQ(RunLine("help list").out, RunLine("list --help").out);
  EXPECT_EQ(RunLine("help").out, RunLine("--help").out);
  // Options stand before and behind every verb.
  EXPECT_EQ(RunLine("trust list --color never").out, RunLine("--color never trust list").out);
}

TEST_F(CliTest, NamesWhatChangedInAFunction) {
  const auto connection = Open();
  proto::CompileT edited = RequestFor("pkg.f", {4});
  edited.key = KeyOf("pkg.f", "GELU");
  ASSERT_TRUE(connection->Compile(edited));
  const json why = Run("why-miss pkg.f --json").Json();
  EXPECT_EQ(why["component"], "module_state");
  EXPECT_EQ(why["item"], "model.act_fn");
  EXPECT_EQ(why["graph"]["equal"], true);
  const std::string text = Run("why-miss pkg.f").out;
  EXPECT_NE(text.find("stored: module_state model.act_fn: "), std::string::npos) << text;
  EXPECT_NE(text.find("\nthe graphs are equal\n"), std::string::npos) << text;
}

TEST_F(CliTest, ComparesTheGraphsOfAnEntryNodeByNode) {
  const auto connection = Open();
  proto::CompileT longer = RequestFor("pkg.g", {4, 4});
  ASSERT_TRUE(connection->Compile(longer));
  const Ran found = Run("diff pkg.f pkg.g");
  EXPECT_EQ(found.status, 0);
  EXPECT_NE(found.out.find("function name: pkg.f -> pkg.g"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("graph inputs\n- graph"), std::string::npos) << found.out;
  // Two variants of one entry: the exact one and the template that came after it.
  const json variants = Run("inspect pkg.f --json").Json()["variants"];
  const auto graph = [&](size_t i) { return variants[i]["graph"].get<std::string>().substr(0, 10); };
  const json two = Run("diff " + graph(0) + " " + graph(1) + " --json").Json();
  EXPECT_EQ(two["differences"], json::array());
  EXPECT_EQ(two["graph"]["equal"], false);
  EXPECT_NE(two["graph"]["stored"], two["graph"]["asked"]);
  EXPECT_EQ(Run("diff " + graph(0) + " " + graph(0) + " --json").Json()["graph"]["equal"], true);
}

TEST_F(CliTest, SaysWhatIsAmbiguousAndWhatIsUnknown) {
  const auto connection = Open();
  proto::CompileT other = RequestFor("pkg.f", {4});
  other.key = KeyOf("pkg.f", "GELU");
  ASSERT_TRUE(connection->Compile(other));
  const Ran ambiguous = Run("inspect pkg.f");
  EXPECT_EQ(ambiguous.status, static_cast<int>(Code::kInvalid));
  EXPECT_NE(ambiguous.out.find("'pkg.f' names several entries, among them "), std::string::npos) << ambiguous.out;
  EXPECT_EQ(Run("diff pkg.f zzz").status, static_cast<int>(Code::kInvalid));
  const std::string key = Run("list --json").Json()["entries"][0]["key"];
  const Ran unknown = Run("diff " + key + " zzz");
  EXPECT_EQ(unknown.status, static_cast<int>(Code::kNotFound));
  EXPECT_NE(unknown.out.find("no entry, graph or artifact 'zzz'"), std::string::npos) << unknown.out;
}

TEST_F(CliTest, SaysTheDependencyRecordInWords) {
  const auto connection = Open();
  proto::CompileT request = RequestFor("pkg.h", {4});
  const auto depends = [&](const char* kind, const char* where, const char* text) {
    request.dependencies.push_back(std::make_unique<proto::DependencyT>());
    request.dependencies.back()->kind = kind;
    request.dependencies.back()->where = where;
    request.dependencies.back()->text = text;
  };
  depends("env", "MODE", "fast");
  depends("opaque", "self.cache", "deque");
  ASSERT_TRUE(connection->Compile(request));
  const std::string out = Run("inspect pkg.h").out;
  EXPECT_NE(out.find("proved: environment variable MODE is still fast\n"), std::string::npos) << out;
  EXPECT_NE(out.find("assumed: self.cache (deque) is unchanged\n"), std::string::npos) << out;
  EXPECT_EQ(Run("inspect pkg.h --json").Json()["variants"][0]["dependencies"][1]["proved"], false);
}

TEST_F(CliTest, ShowsAQuarantineAndLiftsIt) {
  const std::string artifact = Run("inspect pkg.f --json").Json()["variants"][0]["artifact"];
  const auto connection = Open();
  Ask(*connection, "quarantine", {{"artifact", artifact}, {"why", "output 0 differs by up to 2"}});
  const std::string out = Run("inspect pkg.f").out;
  EXPECT_NE(out.find("quarantined internal: output 0 differs by up to 2; not tried again before `ingot retry "),
            std::string::npos)
      << out;
  EXPECT_EQ(Run("doctor").status, static_cast<int>(Code::kUnavailable));
  EXPECT_EQ(Run("retry pkg.f").status, 0);
  EXPECT_EQ(Run("doctor").status, 0);
}

}  // namespace
}  // namespace ingot::support
