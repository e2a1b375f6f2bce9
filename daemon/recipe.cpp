// SPDX-License-Identifier: Apache-2.0
#include "daemon/recipe.h"

#include "proto/artifact_file.h"

namespace ingot::daemon {

Result<std::shared_ptr<const proto::RecipeT>> RecipeOf(Bytes artifact) {
  TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(artifact));
  const proto::Recipe* recipe = proto::GetManifest(view.manifest.data())->recipe();
  if (recipe == nullptr) return std::shared_ptr<const proto::RecipeT>();
  return std::shared_ptr<const proto::RecipeT>(recipe->UnPack());
}

Result<bool> IsProvedWhole(Bytes artifact) {
  TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(artifact));
  const proto::Provenance* made = proto::GetManifest(view.manifest.data())->provenance();
  const proto::GraphProof* proof = made == nullptr ? nullptr : made->graph_proof();
  return proof != nullptr && (proof->skipped() == nullptr || proof->skipped()->size() == 0);
}

}  // namespace ingot::daemon
