// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "kernels/abi.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"
#include "proto/frame.h"

namespace ingot::client {

/// Artifact bytes mapped into this process, checked and linked. Immutable, shared by programs.
///
/// Admission refuses, with the reason: wrong ABI, CPU features this machine lacks, section
/// digests that do not match, code with undefined symbols, needed libraries or initialisers.
/// Nothing is executed or mapped executable before that. Needs no torch.
class LoadedArtifact {
 public:
  /// `file` is a sealed memory file (the daemon's reply). `expected` = digest of all bytes, checked.
  static Result<std::shared_ptr<const LoadedArtifact>> Open(UniqueFd file, Digest expected);
  /// From bytes (an exported file): copied into a sealed memory file first.
  static Result<std::shared_ptr<const LoadedArtifact>> Open(Bytes bytes);
  ~LoadedArtifact();

  const proto::Manifest& manifest() const { return *manifest_; }
  /// Entry point of Manifest.kernels[i].
  IngotKernel kernel(size_t i) const { return kernels_[i]; }
  Bytes constants() const { return view_.constants; }
  Bytes bytes() const { return bytes_; }
  Digest digest() const { return digest_; }

 private:
  LoadedArtifact() = default;
  Status Load(int file, Digest expected);
  Status Admit() const;
  Status LinkCode();
  /// Loads the code from a file in INGOT_CODE_DIR; false where that is not to be or cannot be.
  bool LinkKeptCode();

  Bytes bytes_;
  Digest digest_;
  proto::ArtifactView view_;
  const proto::Manifest* manifest_ = nullptr;
  std::vector<IngotKernel> kernels_;
  void* library_ = nullptr;
  /// Kept open: the loader takes libraries of one path for one library, and the path is that of
  /// this descriptor.
  UniqueFd code_;
};

}  // namespace ingot::client
