// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "compiler/import/sizes.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Where elements lie in a graph that is being generalized: layouts over symbols that were the recorded ones, and what
/// of `sizes` eager's choices by layout rely on.
class Layouts {
 public:
  Layouts(const Graph& graph, Sizes& sizes) : graph_(graph), sizes_(sizes) {}

  /// The numbers are those that were seen; strides of dims of size 1 address nothing.
  bool Matches(const Dims& dims, const Dims& exact, const Dims& exact_sizes = {}) const;
  /// The strides, except those that address nothing and were others.
  Dims AsSeen(Dims strides, const Type& exact) const;
  /// Gives `type` the first of these strides that are those of `exact`; false where none are.
  bool Choose(std::span<const Dims> guesses, const Type& exact, Type& type);
  /// Sizes that were seen equal to a symbol's are that symbol, in a layout of which nobody knows more than was seen.
  Type Guess(const Type& exact, Type type) const;
  /// Makes every symbol of the type the number it was.
  void Fix(const Type& type, const std::string& why);

  /// Whether PyTorch takes images or volumes for channels last, which it tells by their strides (c10's
  /// is_channels_last_strides): where they have gaps, sizes decide.
  void NoteChannelsLast(const Type& type);
  /// The same of rows that `node` takes for images.
  void NoteImages(const Node& node);
  /// The order in which eager walks what `node` takes, for a result of these sizes whose layout no rule tells; `exact`
  /// is what the run had.
  void NoteWalk(const Node& node, const Dims& sizes, const Type& exact);
  /// Notes one thing of the operand's layout that keeps the result from being a view of it, as it did.
  bool StaysCopied(const Node& node, const Type& from, const Type& to);

 private:
  bool KeepsOrder(const Node& node, const Dims& sizes, const Type& exact) const;
  /// Whether dims with more than one place lie in another order than they are named.
  bool IsTurned(const Type& type) const;
  template <typename F>
  static void ForEachPair(const Type& type, const F& fn);
  /// Whether dim `outer` is walked outside of dim `inner` at every size, as where one of its steps is all of the other.
  bool Nests(const Type& type, size_t outer, size_t inner) const;
  /// Whether sizes decide if some operand's dims are walked in the order in which they are named.
  bool MayBeTurned(const Node& node) const;
  /// The order of the operands' dims, by strides, and by sizes where those are equal. True where it is another one than
  /// they are named in.
  bool NoteOrder(const Node& node, const Dims& sizes);
  void NoteComparison(const Dim& a, const Dim& b);
  /// A dim of size 1 lies anywhere, and says nothing of where a larger one would: the range has one or the other.
  void StaysOne(const Dim& size);
  void TieIfOne(const Dim& size);

  const Graph& graph_;
  Sizes& sizes_;
};

}  // namespace ingot::compiler
