// SPDX-License-Identifier: Apache-2.0
// The command against daemons whose graphs are words: bundles, manifests, lists, logs and what shells ask.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/temp_dir.h"
#include "client/lib/connect/connection.h"
#include "proto/lock_file.h"
#include "tests/support/eventually.h"

namespace ingot::tools {
namespace {

using ingot::support::Eventually;
using nlohmann::json;
using testing::HasSubstr;

struct Ran {
  int status = -1;
  std::string out;
  json Json() const { return json::parse(out, nullptr, /*allow_exceptions=*/false); }
};

Ran RunLine(const std::string& line) {
  Ran ran;
  FILE* pipe = popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  char piece[4096];
  while (const size_t got = fread(piece, 1, sizeof piece, pipe)) ran.out.append(piece, got);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

std::unique_ptr<proto::EntryKeyT> KeyOf(const std::string& function) {
  auto key = std::make_unique<proto::EntryKeyT>();
  auto component = std::make_unique<proto::ComponentT>();
  component->name = "function";
  component->items.push_back(std::make_unique<proto::ItemT>());
  component->items[0]->name = "name";
  component->items[0]->text = function;
  component->items[0]->low = DigestOf(function).low;
  key->components.push_back(std::move(component));
  return key;
}

class MovingTest : public testing::Test {
 protected:
  void SetUp() override {
    // Keys and trust of the test alone.
    config_home_ = dir_ / "config";
    std::filesystem::create_directories(config_home_);
    setenv("XDG_CONFIG_HOME", config_home_.c_str(), 1);
    unsetenv("NO_COLOR");
  }
  void TearDown() override {
    for (const char* name : {"a", "b"}) Stop(name);
    unsetenv("XDG_CONFIG_HOME");
  }
  client::ConnectionOptions Options(const std::string& name) const {
    client::ConnectionOptions options;
    options.store_dir = dir_ / name;
    options.daemon = INGOT_FAKE_DAEMON;
    options.daemon_arguments = {"--worker", INGOT_FAKE_WORKER, "--workers", "1", "--worker-memory-bytes-max", "0"};
    return options;
  }
  std::unique_ptr<client::Connection> Open(const std::string& name) const {
    auto connection = client::Connection::Open(Options(name));
    EXPECT_TRUE(connection) << connection.error().ToText();
    return connection ? std::move(connection).value() : nullptr;
  }
  void Stop(const std::string& name) const {
    client::ConnectionOptions options = Options(name);
    options.start = false;
    if (auto connection = client::Connection::Open(options)) {
      Ignore((*connection)->Query("stop"), "it may end before it answers");
    }
    const std::string lock = proto::ResolveEndpoint(options.store_dir)->lock_path();
    EXPECT_TRUE(Eventually([&] { return !proto::LockFile::HolderOf(lock); })) << lock;
  }
  void Fill(const std::string& name, const std::vector<std::string>& functions) const {
    const auto connection = Open(name);
    ASSERT_TRUE(connection);
    for (const std::string& function : functions) {
      proto::CompileT request;
      request.key = KeyOf(function);
      const std::string graph = "graph " + function + " 4";
      request.recording.assign(graph.begin(), graph.end());
      const auto compiled = connection->Compile(request);
      ASSERT_TRUE(compiled) << compiled.error().ToText();
    }
  }
  bool Serves(const std::string& name, const std::string& function) const {
    const auto found = Open(name)->Lookup(*KeyOf(function));
    return found && found->reply.found;
  }
  Ran Run(const std::string& name, const std::string& arguments) const {
    return RunLine(std::string(INGOT_PROGRAM) + " --store " + (dir_ / name) + " " + arguments);
  }
  void Trust() {
    const Ran made = RunLine(std::string(INGOT_PROGRAM) + " trust keygen ci");
    ASSERT_EQ(made.status, 0) << made.out;
    const std::string line = made.out.substr(made.out.find("ingot-ed25519 "));
    const Ran added = RunLine(std::string(INGOT_PROGRAM) + " trust add '" + line.substr(0, line.find('\n')) + "'");
    ASSERT_EQ(added.status, 0) << added.out;
  }

  TempDir dir_;
  std::string config_home_;
};

TEST_F(MovingTest, CarriesEntriesInAFile) {
  Trust();
  Fill("a", {"f", "g"});
  Open("b");
  const std::string bundle = dir_ / "b.bundle";
  const Ran out = Run("a", "export f -o " + bundle);
  ASSERT_EQ(out.status, 0) << out.out;
  EXPECT_THAT(out.out, HasSubstr("1 entries with 2 artifacts and texts"));
  EXPECT_THAT(out.out, HasSubstr("signed by ci ("));
  const Ran listed = Run("b", "import --dry-run " + bundle);
  EXPECT_EQ(listed.status, 0) << listed.out;
  EXPECT_THAT(listed.out, HasSubstr("would take 1 of 1 entries, 0 known, 0 refused"));
  EXPECT_FALSE(Serves("b", "f"));
  const Ran in = Run("b", "import " + bundle);
  EXPECT_EQ(in.status, 0) << in.out;
  EXPECT_EQ(in.out, "took 1 of 1 entries, 0 known, 0 refused\n");
  EXPECT_TRUE(Serves("b", "f"));
  EXPECT_FALSE(Serves("b", "g"));
  EXPECT_EQ(Run("b", "import " + bundle + " --json").Json()["known"], 1);
}

TEST_F(MovingTest, SaysWhatIsNotTakenAndWhy) {
  Fill("a", {"f"});
  Open("b");
  const std::string bundle = dir_ / "b.bundle";
  const Ran no_key = Run("a", "export --all -o " + bundle);
  EXPECT_EQ(no_key.status, static_cast<int>(Code::kNotFound));
  EXPECT_THAT(no_key.out, HasSubstr("`ingot trust keygen NAME` makes one"));
  ASSERT_EQ(Run("a", "export --all --unsigned -o " + bundle).status, 0);
  const Ran refused = Run("b", "import " + bundle);
  EXPECT_EQ(refused.status, static_cast<int>(Code::kUnavailable)) << refused.out;
  EXPECT_THAT(refused.out, HasSubstr("unsigned: nobody vouches for it"));
  const Ran taken = Run("b", "import --allow-unsigned " + bundle);
  EXPECT_EQ(taken.status, 0) << taken.out;
  EXPECT_THAT(taken.out, HasSubstr("nobody vouches for this code but you"));
  EXPECT_TRUE(Serves("b", "f"));
  std::filesystem::resize_file(bundle, std::filesystem::file_size(bundle) - 700);
  const Ran cut = Run("b", "import --allow-unsigned " + bundle);
  EXPECT_EQ(cut.status, static_cast<int>(Code::kCorrupt)) << cut.out;
  EXPECT_EQ(Run("b", "import " + (dir_ / "nothing")).status, static_cast<int>(Code::kNotFound));
  EXPECT_EQ(Run("b", "import").status, static_cast<int>(Code::kInvalid));
  EXPECT_EQ(Run("a", "export -o " + bundle).status, static_cast<int>(Code::kInvalid));
}

TEST_F(MovingTest, NamesWhatAJobUsed) {
  Fill("a", {"f", "g"});
  const std::string manifest = dir_ / "m.json";
  const Ran wrote = Run("a", "manifest --since 1h -o " + manifest);
  ASSERT_EQ(wrote.status, 0) << wrote.out;
  EXPECT_THAT(wrote.out, HasSubstr("2 entries with 2 artifacts"));
  const Ran there = Run("a", "prefetch " + manifest);
  EXPECT_EQ(there.status, 0) << there.out;
  EXPECT_THAT(there.out, HasSubstr("0 came, 2 were there, 0 were not found, 0 failed"));
  Open("b");
  const Ran gone = Run("b", "prefetch " + manifest);
  EXPECT_EQ(gone.status, static_cast<int>(Code::kNotFound)) << gone.out;
  EXPECT_THAT(gone.out, HasSubstr("no cluster is configured"));
  ASSERT_EQ(Run("a", "export --unsigned --manifest " + manifest + " -o " + (dir_ / "b.bundle")).status, 0);
  std::ofstream(manifest) << R"({"ingot_manifest": 2, "entries": []})";
  EXPECT_EQ(Run("a", "prefetch " + manifest).status, static_cast<int>(Code::kIncompatible));
  for (const char* text : {"", "[]", "{", R"({"ingot_manifest": 1})", R"({"ingot_manifest": 1, "entries": [7]})"}) {
    std::ofstream(manifest, std::ios::trunc) << text;
    EXPECT_EQ(Run("a", "prefetch " + manifest).status, static_cast<int>(Code::kCorrupt)) << text;
  }
  EXPECT_EQ(Run("a", "manifest --since yesterday").status, static_cast<int>(Code::kInvalid));
  const Ran sync = Run("a", "sync");
  EXPECT_EQ(sync.status, static_cast<int>(Code::kUnavailable));
  EXPECT_THAT(sync.out, HasSubstr("there is no cluster to sync with"));
}

TEST_F(MovingTest, ListsInTheOrderThatIsAskedFor) {
  Fill("a", {"b.f", "a.f", "c.f"});
  const auto functions = [&](const std::string& arguments) {
    std::string out;
    const json answer = Run("a", "list --json " + arguments).Json();
    for (const json& entry : answer["entries"]) out += entry["function"].get<std::string>() + " ";
    return out;
  };
  EXPECT_EQ(functions("--sort function"), "a.f b.f c.f ");
  EXPECT_EQ(functions("--sort function --reverse"), "c.f b.f a.f ");
  EXPECT_EQ(functions("-s function -n 2"), "a.f b.f ");
  EXPECT_EQ(functions("-s function -n 0"), "");
  for (const char* by : {"used", "created", "size", "cost", "hits", "key"}) {
    EXPECT_EQ(Run("a", std::string("list --sort ") + by).status, 0) << by;
  }
  const Ran wrong = Run("a", "list --sort beauty");
  EXPECT_EQ(wrong.status, static_cast<int>(Code::kInvalid));
  EXPECT_THAT(wrong.out, HasSubstr("'beauty' is not one of used|created"));
  EXPECT_EQ(Run("a", "list -n many").status, static_cast<int>(Code::kInvalid));
  const Ran names = Run("a", "list -o name");
  EXPECT_EQ(names.out.size(), 3u * 33);
  EXPECT_THAT(Run("a", "list -o wide").out, HasSubstr("CREATED"));
  EXPECT_THAT(Run("a", "list -n 1 -s function").out, HasSubstr("1 of 3 entries"));
  EXPECT_EQ(Run("a", "list").out.find('\x1b'), std::string::npos) << "no colours where there is no terminal";
  EXPECT_THAT(Run("a", "list --color always").out, HasSubstr("\x1b[1mKEY"));
  EXPECT_EQ(Run("a", "--color pink list").status, static_cast<int>(Code::kInvalid));
}

TEST_F(MovingTest, SaysWhatGcWouldRemoveAndRemovesNothing) {
  client::ConnectionOptions options = Options("a");
  options.daemon_arguments.insert(options.daemon_arguments.end(),
                                  {"--store-entries-max", "1", "--gc-grace-s", "0", "--gc-interval-s", "100000"});
  {
    const auto connection = client::Connection::Open(options);
    ASSERT_TRUE(connection) << connection.error().ToText();
    Fill("a", {"f"});
  }
  const Ran nothing = Run("a", "gc --dry-run");
  EXPECT_EQ(nothing.status, 0) << nothing.out;
  EXPECT_THAT(nothing.out, HasSubstr("would remove 0 values"));
  const std::string key = Run("a", "list -o name").out.substr(0, 32);
  ASSERT_EQ(Run("a", "pin " + key).status, 0);
  Fill("a", {"g"});
  // Over the limit by one, which the daemon may have seen by itself.
  const json plan = Run("a", "gc --dry-run --json").Json();
  ASSERT_TRUE(plan.contains("would_evict")) << plan;
  for (const json& one : plan["would_evict"]) {
    EXPECT_FALSE(one["why"].get<std::string>().empty());
    EXPECT_NE(one["key"], key) << "it is pinned";
  }
  EXPECT_EQ(Run("a", "gc --dry-run --json").Json()["evicted"], plan["evicted"]) << "nothing went";
}

TEST_F(MovingTest, ShowsOneFrameWhereThereIsNoTerminal) {
  Fill("a", {"f"});
  const Ran top = Run("a", "top");
  EXPECT_EQ(top.status, 0) << top.out;
  EXPECT_THAT(top.out, HasSubstr("ingotd "));
  EXPECT_THAT(top.out, HasSubstr("look-ups  "));
  EXPECT_THAT(top.out, HasSubstr("compiles  1"));
  EXPECT_EQ(top.out.find('\x1b'), std::string::npos);
  EXPECT_TRUE(Run("a", "top --json").Json().is_object());
  Stop("a");
  EXPECT_EQ(Run("a", "top --once").status, static_cast<int>(Code::kUnavailable));
}

class LogTest : public MovingTest {
 protected:
  LogTest() {
    home_ = proto::ResolveEndpoint(dir_ / "a")->home;
    std::filesystem::create_directories(home_);
    std::filesystem::permissions(dir_ / "a", std::filesystem::perms::owner_all);
    Add("2026-01-31T12:00:00.000 info pid=7 one\n2026-01-31T12:00:01.000 warning pid=7 two\n  more of two\n"
        "2026-01-31T12:00:02.000 debug pid=7 three\n");
  }
  std::string log() const { return home_ + "/ingotd.log"; }
  void Add(const std::string& text) const { std::ofstream(log(), std::ios::app) << text; }

  std::string home_;
};

TEST_F(LogTest, ShowsTheLastLinesThatMatter) {
  EXPECT_EQ(Run("a", "daemon log -n 1").out, "2026-01-31T12:00:02.000 debug pid=7 three\n");
  EXPECT_EQ(Run("a", "daemon log --level warn").out, "2026-01-31T12:00:01.000 warning pid=7 two\n  more of two\n");
  EXPECT_EQ(Run("a", "daemon log --level error").out, "");
  EXPECT_EQ(Run("a", "daemon log -n 1 --level info").out, "  more of two\n");
  EXPECT_EQ(Run("a", "daemon log --level loud").status, static_cast<int>(Code::kInvalid));
}

TEST_F(LogTest, FollowsIntoTheFileAfterThisOne) {
  const std::string out = dir_ / "out";
  const std::string line = "timeout 60 " + std::string(INGOT_PROGRAM) + " --store " + (dir_ / "a") +
                           " daemon log -f -n 1 > " + out + " & echo $!";
  const Ran started = RunLine(line);
  const auto text = [&] {
    std::ifstream file(out);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  ASSERT_TRUE(Eventually([&] { return text().find("three") != std::string::npos; })) << text();
  Add("2026-01-31T12:00:03.000 info pid=7 fo");
  Add("ur\n");
  Add("2026-01-31T12:00:04.000 info pid=7 five\n");
  // As the daemon does when its log is full.
  std::filesystem::rename(log(), log() + ".1");
  Add("2026-01-31T12:00:05.000 info pid=7 six\n");
  EXPECT_TRUE(Eventually([&] { return text().find("six\n") != std::string::npos; })) << text();
  EXPECT_EQ(text(),
            "2026-01-31T12:00:02.000 debug pid=7 three\n2026-01-31T12:00:03.000 info pid=7 four\n"
            "2026-01-31T12:00:04.000 info pid=7 five\n2026-01-31T12:00:05.000 info pid=7 six\n");
  kill(std::atoi(started.out.c_str()), SIGTERM);
}

class ShellTest : public MovingTest {
 protected:
  /// Runs a script; the program is found as `ingot`.
  Ran Shell(const std::string& shell, const std::string& script) const {
    const std::string file = dir_ / "script";
    std::ofstream(file, std::ios::trunc) << script;
    const std::string path = std::filesystem::path(INGOT_PROGRAM).parent_path().string();
    return RunLine("PATH=" + path + ":$PATH INGOT_STORE_DIR=" + (dir_ / "a") + " " + shell + " " + file);
  }
  static bool Has(const std::string& shell) {
    return std::system(("command -v " + shell + " > /dev/null 2>&1").c_str()) == 0;
  }
  static std::string BashLine(const std::string& words, int at) {
    return "source <(ingot completion bash)\nCOMP_WORDS=(ingot " + words + ")\nCOMP_CWORD=" + std::to_string(at) +
           "\n_ingot\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  }
};

TEST_F(ShellTest, BashCompletesVerbsOptionsAndWhatIsStored) {
  Fill("a", {"model.decode", "model.encode", "other"});
  EXPECT_EQ(Shell("bash", BashLine("pre", 1)).out, "prefetch\n");
  EXPECT_EQ(Shell("bash", BashLine("daemon st", 2)).out, "start\nstop\nstatus\n");
  EXPECT_EQ(Shell("bash", BashLine("list --sort c", 3)).out, "created\ncost\n");
  EXPECT_EQ(Shell("bash", BashLine("import --dr", 2)).out, "--dry-run\n");
  const std::string found = Shell("bash", BashLine("inspect model.", 2)).out;
  EXPECT_THAT(found, HasSubstr("model.decode\n"));
  EXPECT_THAT(found, HasSubstr("model.encode\n"));
  EXPECT_EQ(found.find("other"), std::string::npos);
  const std::string key = Run("a", "list -o name -n 1").out.substr(0, 12);
  EXPECT_EQ(Shell("bash", BashLine("evict " + key.substr(0, 6), 2)).out, key + "\n");
  // Without a daemon there is nothing to offer, and nothing is started.
  Stop("a");
  EXPECT_EQ(Shell("bash", BashLine("inspect model.", 2)).out, "\n");
  EXPECT_EQ(Shell("bash", "source <(ingot completion bash); complete -p ingot").out, "complete -F _ingot ingot\n");
}

TEST_F(ShellTest, ZshCompletes) {
  if (!Has("zsh")) GTEST_SKIP() << "no zsh on this machine";
  const Ran ran = Shell("zsh -f",
                        "autoload -Uz compinit; compinit -u -D\nsource <(ingot completion zsh)\n"
                        "_describe() { print -l -- ${(P)argv[-1]} }\n"
                        "words=(ingot daemon st) CURRENT=3\n_ingot\nprint $_comps[ingot]\n");
  EXPECT_EQ(ran.out,
            "start:Starts the daemon if it does not run\n"
            "stop:Stops the daemon once it has answered what it has\n"
            "status:What the running daemon is\n_ingot\n");
}

TEST_F(ShellTest, FishCompletes) {
  if (!Has("fish")) GTEST_SKIP() << "no fish on this machine";
  const Ran ran = Shell("fish --no-config", "ingot completion fish | source\ncomplete -C 'ingot daemon st'\n");
  EXPECT_THAT(ran.out, HasSubstr("start\tStarts the daemon if it does not run\n"));
  EXPECT_THAT(ran.out, HasSubstr("stop\t"));
}

TEST_F(ShellTest, NamesTheShellsItKnows) {
  const Ran wrong = RunLine(std::string(INGOT_PROGRAM) + " completion csh");
  EXPECT_EQ(wrong.status, static_cast<int>(Code::kInvalid));
  EXPECT_THAT(wrong.out, HasSubstr("there are bash, zsh and fish"));
  EXPECT_EQ(RunLine(std::string(INGOT_PROGRAM) + " completion").status, static_cast<int>(Code::kInvalid));
}

}  // namespace
}  // namespace ingot::tools
