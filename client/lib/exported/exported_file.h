// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "client/lib/exported/call_signature.h"
#include "guards/dtype.h"

namespace ingot::client {

/// One weight as the file holds it, or where it is.
struct ExportedWeight {
  std::string path;  ///< for people: "self.layers.0.weight"
  guards::DType dtype = guards::DType::kF32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  ///< in elements, of the tensor it was; not negative
  Bytes elements;                ///< contiguous, whatever the strides; not aligned
  std::string file;    ///< a safetensors file that has the elements, from this file's folder; empty: they are inside
  std::string tensor;  ///< its name there
  std::string digest;  ///< of the elements there, 32 hex digits
};

/// One compiled graph of a function, and the sizes it may serve.
struct ExportedVariant {
  std::string outputs;  ///< result structure, JSON text (client/python/ingot/trace/tree.py)
  /// Symbol values a recording has proved.
  std::vector<std::vector<int64_t>> proven;
  /// A condition over symbols under which no recording is needed: "s0 >= 2 and s0 <= 64". Empty:
  /// only `proven` counts.
  std::string range;
  /// Positions among the file's weights, in manifest order.
  std::vector<uint32_t> weights;
  Bytes artifact;
};

/// The calls of one argument structure.
struct ExportedStructure {
  CallSignature arguments;
  std::vector<ExportedVariant> variants;  ///< at least one; the first that takes a call serves it
};

/// What a function was compiled for, with its weights (docs/format/export.md), as views of bytes that
/// somebody else keeps. Needs no torch.
struct ExportedFile {
  std::string name;
  std::vector<ExportedStructure> structures;  ///< at least one
  std::vector<ExportedWeight> weights;        ///< shared by all variants
};

/// kCorrupt: damaged, or not such a file; kIncompatible: another format version.
Result<ExportedFile> ParseExportedFile(Bytes bytes);

/// Replaces `path` by the file as a whole. kInvalid: there is no variant, a weight's elements are not
/// as many as its sizes say, or neither inside nor elsewhere; the codes of base/filesystem.h when it cannot be written.
/// With a descriptor the bytes go there, and `path` is only what errors call it.
Status WriteExportedFile(const std::string& path, const ExportedFile& file, std::optional<int> descriptor = {});

}  // namespace ingot::client
