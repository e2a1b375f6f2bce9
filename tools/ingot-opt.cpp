// SPDX-License-Identifier: Apache-2.0
// ingot-opt: graph text in, passes, graph text out.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "compiler/explain_steps.h"
#include "compiler/fusion/fuse.h"
#include "compiler/fusion/lower/lower.h"
#include "compiler/import/generalize.h"
#include "compiler/ir/text.h"
#include "compiler/lowered_graph.h"
#include "compiler/ops/infer.h"
#include "compiler/passes/apply_patterns.h"
#include "compiler/passes/pipeline.h"
#include "compiler/targets/target.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"

namespace ingot {
namespace {

constexpr std::string_view kUsage =
    "usage: ingot-opt [--passes=a,b | --disable=a,b] [--dump=DIR] [--time] [--explain] [FILE]\n"
    "       ingot-opt --lift FILE\n"
    "       ingot-opt --prove[=all] [FILE]\n"
    "       ingot-opt --list | --rules\n"
    "Reads graph text from FILE or standard input and prints the graph after the passes; without\n"
    "--passes these are the passes of a CPU compile. --explain prints a table of what becomes of each step\n"
    "instead: the kernel it is part of, or why it stays with ATen, and which rewrites nearly took place there.\n"
    "--list prints the names of the passes, --rules the operators that can become part of a kernel. --lift\n"
    "reads a recording and prints the template it makes by itself, its range and what fixed sizes. --prove compares\n"
    "the kernels and the plan of a graph with what its nodes say, and prints what was compared and what that took.\n";

struct Options {
  std::vector<std::string> passes;
  compiler::PipelineOptions pipeline;
  std::string file;
  bool has_passes = false, list = false, rules = false, time = false, explain = false, generalize = false,
       prove = false, prove_all = false, help = false;
};

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) items.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

Result<Options> ReadArguments(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const std::string_view value = arg.substr(std::min(arg.find('=') + 1, arg.size()));
    if (arg.starts_with("--passes=")) {
      options.passes = SplitList(value);
      options.has_passes = true;
    } else if (arg.starts_with("--disable=")) {
      options.pipeline.disabled = SplitList(value);
    } else if (arg.starts_with("--dump=")) {
      options.pipeline.dump_dir = value;
    } else if (arg == "--list") {
      options.list = true;
    } else if (arg == "--rules") {
      options.rules = true;
    } else if (arg == "--explain") {
      options.explain = true;
    } else if (arg == "--lift") {
      options.generalize = true;
    } else if (arg == "--prove" || arg == "--prove=all") {
      options.prove = true;
      options.prove_all = arg == "--prove=all";
    } else if (arg == "--time") {
      options.time = true;
    } else if (arg == "--help") {
      options.help = true;
    } else if (!arg.starts_with("-") && options.file.empty()) {
      options.file = arg;
    } else {
      return Error(Code::kInvalid,
                   "unexpected argument '" + std::string(arg) + "'; ingot-opt --help says what there is");
    }
  }
  return options;
}

Result<std::string> ReadText(const std::string& file) {
  std::ifstream stream(file);
  if (!file.empty() && !stream) return Error(Code::kNotFound, "cannot read " + file);
  std::istream& in = file.empty() ? std::cin : stream;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

using PatternUses = std::shared_ptr<std::vector<compiler::PatternUse>>;

Result<compiler::Pipeline> PipelineOf(const Options& options, const PatternUses& uses) {
  if (!options.has_passes) return compiler::DefaultPipeline(uses);
  compiler::Pipeline pipeline;
  for (const std::string& name : options.passes) {
    TRY_ASSIGN(compiler::Pass pass, compiler::FindPass(name));
    pipeline.AddGroup({{name, std::move(pass)}});
  }
  return pipeline;
}

/// A line for each step, with the products that this machine's code takes, where there is code for it; and what became
/// of users' patterns.
Status Explain(const compiler::Graph& graph, const std::vector<compiler::PatternUse>& uses) {
  for (const compiler::PatternUse& use : uses) {
    std::cout << "pattern \"" << use.name << "\" replaced " << use.replaced << (use.why.empty() ? "" : "; not where ")
              << use.why << "\n";
  }
  compiler::TakesProduct takes_product;
  std::unique_ptr<compiler::Target> target;
  if (auto spec = compiler::TargetSpec::Host()) {
    if (auto made = compiler::Target::Make(*spec)) target = std::move(made).value();
  }
  if (target != nullptr) takes_product = compiler::ProductsOf(*target);
  TRY_ASSIGN(const std::string table, compiler::ExplainSteps(graph, takes_product));
  std::cout << table;
  return {};
}

/// What a compile compares, and what that took.
Status Prove(const compiler::Graph& graph, bool all) {
  compiler::CompileOptions options;
  options.prove_all = all;
  TRY_ASSIGN(options.target, compiler::TargetSpec::Host());
  TRY_ASSIGN(const compiler::Artifact artifact, compiler::Compile(graph, options));
  TRY_ASSIGN(const proto::ArtifactView file, proto::OpenArtifact(artifact.bytes));
  const std::unique_ptr<proto::ManifestT> plan(proto::GetManifest(file.manifest.data())->UnPack());
  const auto but = [](const std::string& why) { return why.empty() ? why : "; " + why; };
  for (const auto& launch : plan->provenance->launch_proofs) {
    std::cout << launch->kernel << ": " << launch->elements << " elements at " << launch->sizes << " sizes"
              << but(launch->skipped) << "\n";
  }
  const proto::GraphProofT& whole = *plan->provenance->graph_proof;
  std::cout << "as a whole: at " << whole.sizes << " sizes" << but(whole.skipped) << "\n";
  for (const std::string& name : whole.unknown) std::cout << "made up: " << name << "\n";
  std::cerr << artifact.seconds_passes << " s passes, " << artifact.seconds_fusion << " s fusion, "
            << artifact.seconds_codegen << " s code, " << artifact.seconds_proof << " s proof\n";
  return {};
}

Status Run(const Options& options) {
  if (options.help) {
    std::cout << kUsage;
    return {};
  }
  if (options.list) {
    for (const std::string& name : compiler::DefaultPipeline().Names()) std::cout << name << "\n";
    return {};
  }
  if (options.rules) {
    for (const std::string_view name : compiler::fusion::ListRules()) std::cout << name << "\n";
    return {};
  }
  TRY_ASSIGN(const std::string text, ReadText(options.file));
  if (options.generalize) {
    TRY_ASSIGN(const compiler::Generalized generalized,
               compiler::Generalize({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
    std::cout << compiler::Print(generalized.graph) << "# range: " << generalized.range.ToText() << "\n";
    for (const std::string& why : generalized.fixed) std::cout << "# fixed: " << why << "\n";
    return {};
  }
  TRY_ASSIGN(compiler::Graph graph, compiler::Parse(text));
  if (options.prove) return Prove(graph, options.prove_all);
  const auto uses = std::make_shared<std::vector<compiler::PatternUse>>();
  TRY_ASSIGN(const compiler::Pipeline pipeline, PipelineOf(options, uses));
  TRY_ASSIGN(const std::vector<compiler::PassRun> runs, pipeline.Run(graph, options.pipeline));
  if (options.time) {
    for (const compiler::PassRun& run : runs) {
      std::cerr << run.name << " " << run.seconds * 1e6 << " us" << (run.changed ? " changed" : "") << "\n";
    }
  }
  if (options.explain) return Explain(graph, *uses);
  std::cout << compiler::Print(graph);
  return {};
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  auto options = ingot::ReadArguments(argc, argv);
  const ingot::Status done = options ? ingot::Run(*options) : ingot::Status(options.error());
  if (done) return 0;
  std::cerr << "ingot-opt: " << done.error().ToText() << "\n";
  return static_cast<int>(done.error().code());
}
