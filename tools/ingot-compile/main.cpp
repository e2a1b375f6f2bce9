// SPDX-License-Identifier: Apache-2.0
// ingot-compile: what `ingot compile` runs. A program of its own, because it alone of the command
// line's verbs needs torch and the compiler, which take longer to load than the others to run.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/lib/exported_file.h"
#include "compiler/compile.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"
#include "proto/endpoint.h"
#include "tools/ingot-compile/program_graph.h"

namespace ingot::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string archive;
  std::string output;
  std::vector<std::string> sizes;
  bool json = false;
};

Json Report(const Arguments& arguments, const ProgramGraph& program, const proto::Manifest& manifest,
            const client::ExportedFile& file, double seconds) {
  Json symbols = Json::array();
  for (const GraphSymbol& symbol : program.symbols) {
    symbols.push_back({{"name", symbol.archive_name},
                       {"place", symbol.place},
                       {"min", symbol.min},
                       {"max", symbol.max ? Json(*symbol.max) : Json()}});
  }
  uint64_t native = 0, aten = 0, weight_bytes = 0;
  if (manifest.steps() != nullptr) {
    for (const proto::PlanStep* step : *manifest.steps()) {
      native += step->kind() == proto::StepKind::Kernel ? 1 : 0;
      aten += step->kind() == proto::StepKind::Aten ? 1 : 0;
    }
  }
  for (const client::ExportedWeight& weight : file.weights) weight_bytes += weight.elements.size();
  const client::ExportedVariant& variant = file.structures.front().variants.front();
  return {{"file", arguments.output},
          {"name", file.name},
          {"symbols", symbols},
          {"range", variant.range},
          {"weights", file.weights.size()},
          {"weight_bytes", weight_bytes},
          {"artifact_bytes", variant.artifact.size()},
          {"native_steps", native},
          {"aten_steps", aten},
          {"seconds", seconds}};
}

void Print(const Json& report) {
  fmt::print("{}: {} native steps, {} ATen steps, {} weights\n", report["file"].get<std::string>(),
             report["native_steps"].dump(), report["aten_steps"].dump(), report["weights"].dump());
  for (const Json& symbol : report["symbols"]) {
    fmt::print("  {} ({}) from {} to {}\n", symbol["place"].get<std::string>(), symbol["name"].get<std::string>(),
               symbol["min"].dump(), symbol["max"].is_null() ? "any size" : symbol["max"].dump());
  }
}

Status Run(const Arguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<SizeChoice> choices;
  for (const std::string& text : arguments.sizes) {
    TRY_ASSIGN(SizeChoice choice, SizeChoice::Parse(text));
    choices.push_back(std::move(choice));
  }
  TRY_ASSIGN(client::ExportArchive archive, client::ExportArchive::Open(arguments.archive));
  Result<ProgramGraph> program = MakeProgramGraph(archive, choices);
  if (!program) return std::move(program).error().Wrap(arguments.archive);

  compiler::CompileOptions options;
  TRY_ASSIGN(options.target, compiler::TargetSpec::Host());
  TRY_ASSIGN(const compiler::Artifact artifact, compiler::Compile(program->graph, options));
  TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(artifact.bytes));
  const proto::Manifest& manifest = *proto::GetManifest(view.manifest.data());

  client::ExportedVariant variant{archive.outputs(), program->proven, program->Range(), {}, artifact.bytes};
  client::ExportedFile file{archive.name(), {}, {}};
  if (manifest.weights() != nullptr) {
    for (const proto::InputSpec* spec : *manifest.weights()) {
      TRY_ASSIGN(client::ExportedWeight weight, archive.Weight(spec->name() == nullptr ? "" : spec->name()->str()));
      variant.weights.push_back(static_cast<uint32_t>(file.weights.size()));
      file.weights.push_back(std::move(weight));
    }
  }
  TRY_ASSIGN(client::CallSignature call, client::CallSignature::Parse(archive.arguments()));
  file.structures.push_back({std::move(call), {std::move(variant)}});
  TRY(client::WriteExportedFile(arguments.output, file));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const Json report = Report(arguments, *program, manifest, file, seconds.count());
  if (arguments.json) {
    std::puts(report.dump(2).c_str());
  } else {
    Print(report);
  }
  return {};
}

int Main(int count, char** values) {
  CLI::App app("Compiles an archive of torch.export.save into a file that C++ and Python load", "ingot compile");
  app.set_version_flag("--version", std::string(proto::Version()));
  Arguments arguments;
  app.add_option("archive", arguments.archive, "The archive (model.pt2)")->required();
  app.add_option("-o,--output", arguments.output, "The file to write")->required();
  app.add_option("--dynamic", arguments.sizes, "Narrow a dynamic size: x.0=2..64; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--static", arguments.sizes, "Fix a dynamic size: x.0=4; may be repeated")->allow_extra_args(false);
  app.add_flag("--json", arguments.json, "Print JSON");
  try {
    app.parse(count, values);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(Code::kInvalid);
  }
  const Status done = Run(arguments);
  if (done) return 0;
  fmt::print(stderr, "ingot: {}\n", done.error().ToText());
  return static_cast<int>(done.error().code());
}

}  // namespace
}  // namespace ingot::tools

int main(int count, char** values) { return ingot::tools::Main(count, values); }
