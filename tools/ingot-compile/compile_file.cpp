// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot-compile/compile_file.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <functional>

#include "client/lib/exported/exported_file.h"
#include "client/onnx/onnx_model.h"
#include "compiler/compile.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"
#include "tools/ingot-compile/onnx_program.h"
#include "tools/ingot-compile/program_graph.h"

namespace ingot::tools {
namespace {

using Json = nlohmann::ordered_json;

/// A program as graphs, and what a file says of it.
struct Program {
  std::string name, arguments, outputs;
  std::vector<ProgramGraph> graphs;  ///< at least one; the most general first
  std::function<Result<client::ExportedWeight>(const std::string&)> weight;
};

/// Steps of a compiled graph by who runs them.
struct Steps {
  uint64_t native = 0, aten = 0;
};

Result<std::pair<std::string, std::vector<onnx::InputNumber>>> ParseValue(const std::string& text) {
  const auto bad = [&text] {
    return Error(Code::kInvalid, fmt::format("'{}': write NAME=NUMBER,NUMBER, where NAME is an input", text));
  };
  const size_t equals = text.rfind('=');
  if (equals == text.npos || equals == 0) return bad();
  std::vector<onnx::InputNumber> numbers;
  const char *at = text.data() + equals + 1, *const end = text.data() + text.size();
  while (at != end) {
    int64_t integer = 0;
    double number = 0;
    std::from_chars_result read = std::from_chars(at, end, integer);
    const bool is_integer = read.ec == std::errc() && (read.ptr == end || *read.ptr == ',');
    if (!is_integer) read = std::from_chars(at, end, number);
    if (read.ec != std::errc() || (read.ptr != end && (*read.ptr != ',' || read.ptr + 1 == end))) return bad();
    numbers.push_back(is_integer ? onnx::InputNumber(integer) : onnx::InputNumber(number));
    at = read.ptr == end ? end : read.ptr + 1;
  }
  return std::pair(text.substr(0, equals), std::move(numbers));
}

Result<Program> ReadArchive(const CompileRequest& request, const std::vector<SizeChoice>& choices) {
  if (!request.values.empty()) return Error(Code::kInvalid, "--value is for ONNX models");
  TRY_ASSIGN(client::ExportArchive opened, client::ExportArchive::Open(request.program));
  auto archive = std::make_shared<client::ExportArchive>(std::move(opened));
  TRY_ASSIGN(std::vector<ProgramGraph> graphs, MakeProgramGraph(*archive, choices));
  Program program{archive->name(), archive->arguments(), archive->outputs(), std::move(graphs), {}};
  program.weight = [archive](const std::string& name) { return archive->Weight(name); };
  return program;
}

Result<Program> ReadOnnx(const CompileRequest& request, const std::vector<SizeChoice>& choices) {
  onnx::InputValues values;
  for (const std::string& text : request.values) {
    TRY_ASSIGN(auto value, ParseValue(text));
    values.insert(std::move(value));
  }
  TRY_ASSIGN(onnx::OnnxModel opened, onnx::OnnxModel::Open(request.program, values));
  auto model = std::make_shared<onnx::OnnxModel>(std::move(opened));
  TRY_ASSIGN(std::vector<ProgramGraph> graphs, MakeOnnxGraphs(*model, choices));
  Program program{model->name(), model->arguments(), model->outputs(), std::move(graphs), {}};
  program.weight = [model](const std::string& name) { return model->Weight(name); };
  return program;
}

Steps StepsOf(const proto::Manifest& manifest) {
  Steps steps;
  if (manifest.steps() == nullptr) return steps;
  for (const proto::PlanStep* step : *manifest.steps()) {
    steps.native += step->kind() == proto::StepKind::Kernel ? 1 : 0;
    steps.aten += step->kind() == proto::StepKind::Aten ? 1 : 0;
  }
  return steps;
}

Json Report(const CompileRequest& request, const Program& program, const std::vector<Steps>& steps,
            const client::ExportedFile& file) {
  Json symbols = Json::array(), variants = Json::array();
  for (const GraphSymbol& symbol : program.graphs.front().symbols) {
    symbols.push_back({{"name", symbol.archive_name},
                       {"place", symbol.place},
                       {"min", symbol.min},
                       {"max", symbol.max ? Json(*symbol.max) : Json()}});
  }
  uint64_t weight_bytes = 0, artifact_bytes = 0;
  for (const client::ExportedWeight& weight : file.weights) weight_bytes += weight.elements.size();
  const auto& compiled = file.structures.front().variants;
  for (size_t i = 0; i < compiled.size(); ++i) {
    artifact_bytes += compiled[i].artifact.size();
    variants.push_back(
        {{"range", compiled[i].range}, {"native_steps", steps[i].native}, {"aten_steps", steps[i].aten}});
  }
  return {{"file", request.output},
          {"name", file.name},
          {"symbols", symbols},
          {"range", compiled.front().range},
          {"weights", file.weights.size()},
          {"weight_bytes", weight_bytes},
          {"artifact_bytes", artifact_bytes},
          {"native_steps", steps.front().native},
          {"aten_steps", steps.front().aten},
          {"variants", variants}};
}

}  // namespace

Result<Json> CompileFile(const CompileRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<SizeChoice> choices;
  for (const std::string& text : request.sizes) {
    TRY_ASSIGN(SizeChoice choice, SizeChoice::Parse(text));
    choices.push_back(std::move(choice));
  }
  const bool is_onnx = request.program.ends_with(".onnx");
  Result<Program> program = is_onnx ? ReadOnnx(request, choices) : ReadArchive(request, choices);
  if (!program) {
    const bool is_named = program.error().message().starts_with(request.program);
    return is_named ? std::move(program).error() : std::move(program).error().Wrap(request.program);
  }

  compiler::CompileOptions options;
  TRY_ASSIGN(options.target, compiler::TargetSpec::Host());
  client::ExportedFile file{program->name, {}, {}};
  TRY_ASSIGN(client::CallSignature call, client::CallSignature::Parse(program->arguments));
  client::ExportedStructure& structure = file.structures.emplace_back(client::ExportedStructure{std::move(call), {}});
  std::vector<compiler::Artifact> artifacts;  // whose bytes the file shows
  artifacts.reserve(program->graphs.size());
  std::vector<Steps> steps;
  std::map<std::string, uint32_t> weights;  // by name, their positions in the file
  for (const ProgramGraph& graph : program->graphs) {
    TRY_ASSIGN(compiler::Artifact artifact, compiler::Compile(graph.graph, options));
    artifacts.push_back(std::move(artifact));
    const Bytes bytes = artifacts.back().bytes;
    TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(bytes));
    const proto::Manifest& manifest = *proto::GetManifest(view.manifest.data());
    client::ExportedVariant variant{program->outputs, graph.proven, graph.Range(), {}, bytes};
    if (manifest.weights() != nullptr) {
      for (const proto::InputSpec* spec : *manifest.weights()) {
        const std::string name = spec->name() == nullptr ? "" : spec->name()->str();
        const auto [at, fresh] = weights.emplace(name, static_cast<uint32_t>(file.weights.size()));
        if (fresh) {
          TRY_ASSIGN(client::ExportedWeight weight, program->weight(name));
          file.weights.push_back(std::move(weight));
        }
        variant.weights.push_back(at->second);
      }
    }
    structure.variants.push_back(std::move(variant));
    steps.push_back(StepsOf(manifest));
  }
  TRY(client::WriteExportedFile(request.output, file, request.descriptor));
  Json report = Report(request, *program, steps, file);
  report["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace ingot::tools
