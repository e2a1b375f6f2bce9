// SPDX-License-Identifier: Apache-2.0
// Runs every tests/golden/<pass>/<case>.ir: the passes of its first line over the graph above
// `# =>` must print what stands below it, all of it. `golden_test --update` rewrites what stands
// below; the difference is then reviewed like code. A second line `# print: explain` or `# print: dot` prints what
// becomes of the steps (compiler/explain_steps.h), or the picture (compiler/fusion/dot.h), instead.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "compiler/explain_steps.h"
#include "compiler/fusion/dot.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/text.h"
#include "compiler/passes/pipeline.h"

namespace ingot::compiler {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPasses = "# passes: ";
constexpr std::string_view kPrint = "\n# print: ";
constexpr std::string_view kArrow = "# =>\n";

bool update = false;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The parts of a case file; the head keeps comments and input as they are.
struct Case {
  std::vector<std::string> passes;
  std::string print;  // What is printed instead of the graph; empty: the graph.
  std::string head;
  std::string want;
};

Result<Case> Split(const std::string& text) {
  const size_t arrow = text.find(kArrow);
  if (!text.starts_with(kPasses) || arrow == std::string::npos) {
    return Error(Code::kInvalid, "a case starts with '# passes: a,b' and has a line '# =>'");
  }
  Case found{{}, "", text.substr(0, arrow), text.substr(arrow + kArrow.size())};
  const size_t end = text.find('\n');
  if (text.compare(end, kPrint.size(), kPrint) == 0) {
    const size_t begin = end + kPrint.size();
    found.print = text.substr(begin, text.find('\n', begin) - begin);
  }
  std::string list = text.substr(kPasses.size(), text.find('\n') - kPasses.size());
  for (size_t comma; !list.empty(); list.erase(0, comma == list.npos ? comma : comma + 1)) {
    comma = list.find(',');
    found.passes.push_back(list.substr(0, comma));
  }
  return found;
}

Result<std::string> RunPasses(const Case& test) {
  TRY_ASSIGN(Graph graph, Parse(test.head));
  Pipeline pipeline;
  if (test.passes == std::vector<std::string>{"default"}) {
    pipeline = DefaultPipeline();
  } else {
    for (const std::string& name : test.passes) {
      TRY_ASSIGN(Pass pass, FindPass(name));
      pipeline.AddGroup({{name, std::move(pass)}});
    }
  }
  TRY(pipeline.Run(graph, {}));
  if (test.print == "explain") return ExplainSteps(graph);
  if (test.print == "dot") {
    std::map<NodeId, std::string> reasons;
    TRY_ASSIGN(const Fused fused, Fuse(graph, &reasons));
    return ToDot(graph, fused, reasons);
  }
  if (!test.print.empty()) return Error(Code::kInvalid, "'# print: " + test.print + "' names nothing");
  return Print(graph);
}

class GoldenCase : public ::testing::Test {
 public:
  explicit GoldenCase(fs::path path) : path_(std::move(path)) {}

  void TestBody() override {
    const Result<Case> test = Split(ReadFile(path_));
    ASSERT_TRUE(test) << test.error().ToText();
    const Result<std::string> got = RunPasses(*test);
    ASSERT_TRUE(got) << got.error().ToText();
    if (update && *got != test->want) {
      std::ofstream(path_) << test->head << kArrow << *got;
      std::cout << "updated " << path_.string() << "\n";
      return;
    }
    EXPECT_EQ(*got, test->want) << path_ << ": run golden_test --update and review the diff";
  }

 private:
  fs::path path_;
};

/// A pass without cases is a pass nobody has to believe in.
class Coverage : public ::testing::Test {
 public:
  explicit Coverage(fs::path root) : root_(std::move(root)) {}

  void TestBody() override {
    for (const std::string& name : DefaultPipeline().Names()) {
      bool changes = false, keeps = false;
      if (fs::exists(root_ / name)) {
        for (const auto& file : fs::directory_iterator(root_ / name)) {
          const bool keep = file.path().filename().string().starts_with("keep_");
          (keep ? keeps : changes) = true;
        }
      }
      EXPECT_TRUE(changes) << name << " has no case that changes a graph";
      EXPECT_TRUE(keeps) << name << " has no case keep_*.ir that must not change";
    }
  }

 private:
  fs::path root_;
};

/// A case keep_*.ir says what a pass must leave alone, so its two halves are the same graph.
class KeepCase : public ::testing::Test {
 public:
  explicit KeepCase(fs::path path) : path_(std::move(path)) {}

  void TestBody() override {
    const Result<Case> test = Split(ReadFile(path_));
    ASSERT_TRUE(test) << test.error().ToText();
    const Result<Graph> graph = Parse(test->head);
    ASSERT_TRUE(graph) << graph.error().ToText();
    EXPECT_EQ(Print(*graph), test->want);
  }

 private:
  fs::path path_;
};

std::string TestName(const fs::path& file) {
  std::string name = file.parent_path().filename().string() + "_" + file.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void RegisterCases(const fs::path& root) {
  std::set<fs::path> files;
  for (const auto& file : fs::recursive_directory_iterator(root)) {
    if (file.path().extension() == ".ir") files.insert(file.path());
  }
  for (const fs::path& file : files) {
    ::testing::RegisterTest("Golden", TestName(file).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [file]() -> ::testing::Test* { return new GoldenCase(file); });
    if (!file.filename().string().starts_with("keep_")) continue;
    ::testing::RegisterTest("GoldenKeep", TestName(file).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [file]() -> ::testing::Test* { return new KeepCase(file); });
  }
  ::testing::RegisterTest("GoldenCoverage", "EveryPassHasBothKinds", nullptr, nullptr, __FILE__, __LINE__,
                          [root]() -> ::testing::Test* { return new Coverage(root); });
}

}  // namespace
}  // namespace ingot::compiler

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    ingot::compiler::update |= std::string_view(argv[i]) == "--update";
  }
  ingot::compiler::RegisterCases(INGOT_GOLDEN_DIR);
  return RUN_ALL_TESTS();
}
