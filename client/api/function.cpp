// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "client/api/client.h"
#include "client/api/client_state.h"
#include "client/lib/exported/exported_function.h"
#include "client/lib/exported/given_arguments.h"

namespace ingot {

/// Behind Function.
struct Function::State {
  client::ExportedFunction function;
  /// From a daemon, which knows no argument structure: there is one, and it says nothing.
  bool is_bare = false;
};

namespace {

using Json = nlohmann::json;
using Artifact = std::shared_ptr<const client::LoadedArtifact>;

/// One variant as the daemon lists it.
struct Listed {
  Digest artifact;
  std::vector<std::vector<int64_t>> proven;
  std::string range;
};

Result<std::vector<Listed>> ReadEntry(const std::string& text) {
  std::vector<Listed> variants;
  try {
    const Json entry = Json::parse(text);
    for (const Json& variant : entry.at("variants")) {
      TRY_ASSIGN(const Digest artifact, Digest::FromHex(variant.at("artifact").get<std::string>()));
      variants.push_back({artifact, variant.at("proven").get<std::vector<std::vector<int64_t>>>(),
                          variant.at("range").get<std::string>()});
    }
  } catch (const Json::exception& e) {
    return Error(Code::kCorrupt, fmt::format("the daemon's answer to 'inspect': {}", e.what()));
  }
  return variants;
}

/// Variants of the entry that `key` names, or the one artifact it names.
Result<std::vector<Listed>> FindVariants(const Client& client, const std::string& key) {
  Result<std::string> entry = client.Query("inspect", Json{{"key", key}}.dump());
  if (entry) return ReadEntry(*entry);
  const Result<Digest> artifact = Digest::FromHex(key);
  if (entry.error().code() != Code::kNotFound || !artifact) return std::move(entry).error();
  return std::vector<Listed>{{*artifact, {}, {}}};
}

Result<std::vector<at::Tensor>> WeightsOf(const proto::Manifest& manifest, const NamedTensors& named) {
  std::vector<at::Tensor> weights;
  if (manifest.weights() == nullptr) return weights;
  for (const proto::InputSpec* spec : *manifest.weights()) {
    const std::string name = spec->name() == nullptr ? "" : spec->name()->str();
    const auto at = named.find(name);
    if (at == named.end()) {
      return Error(Code::kNotFound, fmt::format("weight '{}' is not among the {} that were given", name, named.size()));
    }
    weights.push_back(at->second);
  }
  return weights;
}

Result<std::vector<at::Tensor>> RunStructure(const client::ExportedFunction& function, size_t structure,
                                             std::span<const at::Tensor> inputs) {
  Result<client::Served> served = client::RunFirst(function.structures[structure].programs, inputs);
  if (!served) return std::move(served).error().Wrap(function.name);
  return std::move(served->outputs);
}

}  // namespace

Result<Function> Function::Load(const std::string& path, WeightsFrom weights) {
  TRY_ASSIGN(client::ExportedFunction loaded,
             client::ExportedFunction::Load(path, {{}, weights == WeightsFrom::kAnywhere}));
  return Function(std::make_shared<State>(State{std::move(loaded), false}));
}

Result<Function> Function::Load(const Client& client, const std::string& key, const NamedTensors& weights) {
  TRY_ASSIGN(const std::vector<Listed> listed, FindVariants(client, key));
  auto state = std::make_shared<State>();
  state->is_bare = true;
  std::vector<client::SizedProgram>& programs = state->function.structures.emplace_back().programs;
  for (const Listed& variant : listed) {
    TRY_ASSIGN(UniqueFd file, client.state_->connection->Fetch(variant.artifact, client.state_->deadline_ms));
    TRY_ASSIGN(Artifact artifact, client::LoadedArtifact::Open(std::move(file), variant.artifact));
    const proto::Manifest& manifest = artifact->manifest();
    if (manifest.name() != nullptr) state->function.name = manifest.name()->str();
    TRY_ASSIGN(std::vector<at::Tensor> bound, WeightsOf(manifest, weights));
    TRY_ASSIGN(client::SizeRule rule, client::SizeRule::Make(variant.proven, variant.range));
    TRY_ASSIGN(std::shared_ptr<client::Program> program, client::Program::Bind(std::move(artifact), std::move(bound)));
    programs.emplace_back(std::move(program), std::move(rule));
  }
  if (programs.empty()) return Error(Code::kNotFound, fmt::format("entry {} has no variants", key));
  std::ranges::reverse(programs);  // The daemon lists the newest last.
  return Function(std::move(state));
}

Result<std::vector<at::Tensor>> Function::Call(std::span<const c10::IValue> arguments, const Keywords& keywords) const {
  const client::ExportedFunction& function = state_->function;
  if (state_->is_bare) {
    return Error(Code::kUnsupported,
                 fmt::format("{}: the daemon keeps no argument structure; call Run with the tensors", name()));
  }
  Result<client::GivenArguments> given = client::GivenArguments::Of(arguments, keywords);
  if (!given) return std::move(given).error().Wrap(name());
  TRY_ASSIGN(const client::ExportedFunction::Found found, function.Find(given->signature));
  std::vector<at::Tensor> tensors;
  for (const uint32_t number : found.tensors) tensors.push_back(given->tensors[number]);
  return RunStructure(function, found.structure, tensors);
}

Result<std::vector<at::Tensor>> Function::Run(std::span<const at::Tensor> inputs) const {
  size_t structure = 0;
  if (!state_->is_bare) {
    TRY_ASSIGN(structure, state_->function.FindByTensors(inputs));
  }
  return RunStructure(state_->function, structure, inputs);
}

std::vector<std::string> Function::Signatures() const {
  std::vector<std::string> texts;
  for (const auto& structure : state_->function.structures) {
    if (!state_->is_bare) texts.push_back(structure.arguments.ToText());
  }
  return texts;
}

const std::string& Function::name() const { return state_->function.name; }

}  // namespace ingot
