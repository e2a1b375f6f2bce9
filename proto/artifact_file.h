// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace ingot::proto {

/// Sections of an artifact (docs/format/artifact.md): fixed header (magic "INGOTART", version,
/// section table with offset, size and XXH3-128 each, digest of the table), then page-aligned
/// sections. Views into bytes the caller keeps alive.
struct ArtifactView {
  Bytes manifest;   ///< FlatBuffer Manifest, verified
  Bytes code;       ///< ELF shared object; empty when no kernel is needed
  Bytes constants;
  uint32_t version = 1;  ///< of the format: 2 where sizes have atoms, those of conditions too
};

/// Writes an artifact; deterministic.
Buffer PackArtifact(const ArtifactView& parts);

/// Checks header, bounds, and (unless `trust_digests`) every section digest; runs the FlatBuffers
/// verifier. kCorrupt names the section and offset, kIncompatible the version; kInvalid: `file` does
/// not begin at a multiple of 8.
Result<ArtifactView> OpenArtifact(Bytes file, bool trust_digests = false);

}  // namespace ingot::proto
