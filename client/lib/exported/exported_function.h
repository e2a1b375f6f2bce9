// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "client/lib/exported/call_signature.h"
#include "client/lib/exported/sized_program.h"

namespace ingot::client {

/// What an exported file holds, bound to its weights. Thread-safe.
struct ExportedFunction {
  /// The calls of one argument structure.
  struct Structure {
    CallSignature arguments;
    std::vector<std::string> outputs;  ///< result structure of each program, JSON text
    std::vector<SizedProgram> programs;
  };

  struct LoadOptions {
    /// What is in the file, where somebody has read and judged it: it is not read again.
    std::optional<Bytes> content;
    /// Weights may lie anywhere; else below the folder of the file, or where a link that is there leads.
    bool weights_anywhere = false;
  };
  /// Reads, checks and binds an exported file, whose machine code can do what this process can. Errors: those of
  /// ParseExportedFile, WeightFile, LoadedArtifact::Open and Program::Bind; kNotFound: no such file; kInvalid: weights
  /// outside of its folder, or no regular file; each names the path.
  static Result<ExportedFunction> Load(const std::string& path, const LoadOptions& options);
  static Result<ExportedFunction> Load(const std::string& path) { return Load(path, LoadOptions()); }

  /// The first structure that a call has, and where its tensors stand in the call.
  struct Found {
    size_t structure = 0;
    std::vector<uint32_t> tensors;
  };
  /// kInvalid: none; says what differs, from each where there are several.
  Result<Found> Find(const CallSignature& given) const;
  /// The structure whose tensors these are, in order. kInvalid: none, or several, which the tensors
  /// alone cannot tell apart.
  Result<size_t> FindByTensors(std::span<const at::Tensor> tensors) const;

  std::string name;
  std::vector<Structure> structures;  ///< at least one
};

}  // namespace ingot::client
