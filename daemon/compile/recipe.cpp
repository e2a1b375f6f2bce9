// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/recipe.h"

#include "proto/artifact_file.h"

namespace ingot::daemon {
namespace {

bool IsEmpty(const flatbuffers::String* text) { return text == nullptr || text->size() == 0; }

/// Whether none of these proofs was skipped.
bool AreWhole(const auto* proofs) {
  for (uint32_t i = 0; proofs != nullptr && i < proofs->size(); ++i) {
    if (!IsEmpty(proofs->Get(i)->skipped())) return false;
  }
  return true;
}

bool IsWhole(const proto::GraphProof* proof) { return proof != nullptr && IsEmpty(proof->skipped()); }

}  // namespace

Result<std::shared_ptr<const proto::RecipeT>> RecipeOf(Bytes artifact) {
  TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(artifact));
  const proto::Recipe* recipe = proto::GetManifest(view.manifest.data())->recipe();
  if (recipe == nullptr) return std::shared_ptr<const proto::RecipeT>();
  return std::shared_ptr<const proto::RecipeT>(recipe->UnPack());
}

Result<bool> IsProved(Bytes artifact) {
  TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(artifact));
  const proto::Provenance* made = proto::GetManifest(view.manifest.data())->provenance();
  return made != nullptr && AreWhole(made->proofs()) && AreWhole(made->launch_proofs()) && IsWhole(made->graph_proof());
}

Result<bool> IsProvedWhole(Bytes artifact) {
  TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(artifact));
  const proto::Provenance* made = proto::GetManifest(view.manifest.data())->provenance();
  return made != nullptr && IsWhole(made->graph_proof());
}

}  // namespace ingot::daemon
