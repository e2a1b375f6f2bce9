// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "base/result.h"
#include "guards/made_size.h"
#include "proto/artifact_generated.h"

namespace ingot::client {

/// Inputs that callers do not pass, behind those they do: tensors of one element whose size is a
/// quotient of other sizes (guards/made_size.h), which is how a plan has it as a symbol.
class MadeInputs {
 public:
  /// kCorrupt for an input whose name says nothing.
  static Result<MadeInputs> Of(const proto::Manifest& manifest);

  size_t size() const { return sizes_.size(); }
  /// Adds them to `all`, which holds the others. False where a size cannot be made.
  bool Add(std::vector<const at::Tensor*>& all, std::vector<at::Tensor>& made) const;

 private:
  std::vector<guards::MadeSize> sizes_;
  std::vector<std::pair<uint32_t, uint32_t>> places_;  ///< (input, dim) of each symbol
};

}  // namespace ingot::client
