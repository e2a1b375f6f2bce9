// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "client/api/client.h"
#include "client/api/client_state.h"
#include "client/lib/sized_program.h"

namespace ingot {

/// Behind Function.
struct Function::State {
  std::string name;
  /// Those that serve first first; never empty.
  std::vector<client::SizedProgram> variants;
};

namespace {

using Json = nlohmann::json;
using Artifact = std::shared_ptr<const client::LoadedArtifact>;

/// One variant as the daemon lists it.
struct Listed {
  Digest artifact;
  std::vector<std::vector<int64_t>> proven;
};

Result<std::vector<Listed>> ReadEntry(const std::string& text) {
  std::vector<Listed> variants;
  try {
    const Json entry = Json::parse(text);
    for (const Json& variant : entry.at("variants")) {
      TRY_ASSIGN(const Digest artifact, Digest::FromHex(variant.at("artifact").get<std::string>()));
      variants.push_back({artifact, variant.at("proven").get<std::vector<std::vector<int64_t>>>()});
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
  return std::vector<Listed>{{*artifact, {}}};
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

}  // namespace

Result<Function> Function::Load(const std::string& path) {
  TRY_ASSIGN(client::ExportedFunction loaded, client::LoadExported(path));
  return Function(std::make_shared<State>(State{std::move(loaded.name), std::move(loaded.programs)}));
}

Result<Function> Function::Load(const Client& client, const std::string& key, const NamedTensors& weights) {
  TRY_ASSIGN(const std::vector<Listed> listed, FindVariants(client, key));
  auto state = std::make_shared<State>();
  for (const Listed& variant : listed) {
    TRY_ASSIGN(proto::UniqueFd file, client.state_->connection->Fetch(variant.artifact, client.state_->deadline_ms));
    TRY_ASSIGN(Artifact artifact, client::LoadedArtifact::Open(std::move(file), variant.artifact));
    const proto::Manifest& manifest = artifact->manifest();
    if (manifest.name() != nullptr) state->name = manifest.name()->str();
    TRY_ASSIGN(std::vector<at::Tensor> bound, WeightsOf(manifest, weights));
    TRY_ASSIGN(client::SizeRule rule, client::SizeRule::Make(variant.proven, ""));
    TRY_ASSIGN(std::shared_ptr<client::Program> program, client::Program::Bind(std::move(artifact), std::move(bound)));
    state->variants.emplace_back(std::move(program), std::move(rule));
  }
  if (state->variants.empty()) return Error(Code::kNotFound, fmt::format("entry {} has no variants", key));
  std::ranges::reverse(state->variants);  // The daemon lists the newest last.
  return Function(std::move(state));
}

Result<std::vector<at::Tensor>> Function::Run(std::span<const at::Tensor> inputs) const {
  Result<client::Served> served = client::RunFirst(state_->variants, inputs);
  if (!served) return std::move(served).error().Wrap(state_->name);
  return std::move(served->outputs);
}

const std::string& Function::name() const { return state_->name; }

}  // namespace ingot
