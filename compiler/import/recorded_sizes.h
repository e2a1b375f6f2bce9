// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "compiler/import/imported_graph.h"
#include "compiler/import/layouts.h"
#include "compiler/import/recording.h"
#include "compiler/import/sizes.h"

namespace ingot::compiler {

/// What a recording says was computed with sizes and asked of them, over the symbols of a walk. Untrusted.
class RecordedSizes {
 public:
  /// `generalized`: the graph of the walk, which has the types of the walk where `is_generalized`.
  RecordedSizes(const Recording& recording, const ImportedGraph& imported, const Graph& generalized,
                const std::vector<bool>& is_generalized, Sizes& sizes, Layouts& layouts)
      : recording_(recording),
        imported_(imported),
        generalized_(generalized),
        is_generalized_(is_generalized),
        sizes_(sizes),
        layouts_(layouts) {}

  Status Read();
  /// Terms are made anew, of the types of this walk.
  void BeginWalk() { terms_.clear(); }
  /// Sizes of inputs that are said to be numbers, or the same one, before anything is decided for want of knowing it.
  Status TieInputs();
  /// What integer `index` of argument `arg` was computed as; none where it is a number of the program.
  Result<std::optional<Dim>> IntAt(size_t step, size_t arg, size_t index);
  /// Has `sizes` rely on what was asked, with the answers that there were.
  Status NoteGuards();

 private:
  Result<Dim> TermAt(uint32_t index);
  Result<Dim> MakeTerm(const proto::SizeExpr& expr, size_t own);
  Result<Dim> TensorTerm(const proto::SizeExpr& expr);
  /// What was made of two sizes, or the number it was where that takes too many terms.
  Dim Short(const Dim& made, const Dim& a, const Dim& b);
  void FixBoth(const Dim& a, const Dim& b, const std::string& why);

  const Recording& recording_;
  const ImportedGraph& imported_;
  const Graph& generalized_;
  const std::vector<bool>& is_generalized_;
  Sizes& sizes_;
  Layouts& layouts_;
  std::unordered_map<uint64_t, uint32_t> exprs_;  ///< by step, argument and index
  Dims terms_;
};

}  // namespace ingot::compiler
