// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "compiler/fusion/expr.h"

namespace ingot::compiler::fusion {

using CoordsId = uint32_t;

/// The iteration space of a group: one loop variable for each dim that is not 1, some of which
/// are folded by reductions. All reductions of a group fold the same variables. Coordinates that
/// occur in a group are numbered here, so that they compare by number.
class IterationSpace {
 public:
  /// One variable for each of `sizes` that is not 1; the identity coordinates are `identity()`.
  explicit IterationSpace(const Dims& sizes);

  struct Shape {
    Dims extents;
    std::vector<bool> reduced;
    /// The variable along the columns of its contractions, which fold nothing then; kNoVar: there are none.
    uint16_t column = kNoVar;
    size_t cuts = 0;   ///< how often a variable became two
    bool operator==(const Shape&) const = default;
  };
  const Shape& shape() const { return shape_; }
  /// Undoes what a failed trace added.
  void Restore(Shape shape);
  bool has_reduced() const;
  /// Makes a variable two, var = inner * var + a new last one of `inner`, in all coordinates, whose numbers stay.
  /// False: `inner` does not divide its extent, or somebody counts on the variable as it is.
  bool Cut(uint16_t var, const Dim& inner);

  CoordsId Intern(Coords coords);
  const Coords& at(CoordsId id) const { return coords_[id]; }
  CoordsId identity() const { return 0; }

  /// Each non-unit dim of `sizes` is one whole variable, or the whole ones that it was cut into, each other dim its
  /// first place, and together they are all variables, or all that are not folded: a value at these coordinates can be
  /// stored by the group.
  bool IsOwn(CoordsId id, const Dims& sizes) const;
  /// Folds the variables that these coordinates leave out, as a reduction does that has yet to come: a value of each
  /// row is then the group's own. False: something is folded already, or the coordinates are not whole variables.
  bool ReduceOthers(CoordsId id, const Dims& sizes);
  bool HasGathered(CoordsId id) const;
  bool UsesDepth(CoordsId id) const;
  /// Only values in memory can be asked for there: what is gathered, or summed over by a contraction.
  bool NeedsMemory(CoordsId id) const;
  /// The coordinates use variable `var`.
  bool Uses(CoordsId id, uint16_t var) const;

  /// Coordinates of args[arg] of `e` when the result is asked for at `at`. Not for the table of a
  /// gather in emission (which needs the loaded indices). A reduction chooses or checks the folded
  /// variables. nullopt: this group cannot express it; where it could if a variable were two, `wanted` says which, a
  /// depth rather than one of the group's.
  struct WantedCut {
    uint16_t var = kNoVar;
    Dim inner;
  };
  std::optional<CoordsId> ArgCoords(const ExprPool& pool, const Expr& e, size_t arg, CoordsId at,
                                    WantedCut* wanted = nullptr);
  /// Coordinates in a tensor of sizes `to` that has the elements of one of sizes `from` in order.
  std::optional<Coords> Reshaped(const ExprPool& pool, const Dims& from, const Dims& to, const Coords& at,
                                 WantedCut* wanted = nullptr) const;

 private:
  /// Whether something can be scanned along dim `axis` of `sizes` at `at`: the variable there becomes the one that is
  /// walked in order, as reductions fold it.
  bool TakesScan(const Dims& sizes, uint32_t axis, const Coords& at);
  std::optional<Coords> ReduceCoords(const Dims& sizes, const std::vector<bool>& reduced, const Coords& at);
  /// Whether `at` runs over `size` by variables that are not `used`, all of which it then uses.
  bool TakesWhole(const Affine& at, const Dim& size, std::vector<bool>& used) const;
  /// index = quotient * size + rest with 0 <= rest < size, where that can be shown.
  bool Split(const ExprPool& pool, const Affine& index, const Dim& size, Affine& quotient, Affine& rest,
             WantedCut* wanted) const;

  Shape shape_;
  std::vector<Coords> coords_;
  std::vector<std::vector<Coords>> uncut_;  ///< coordinates before each cut
};

}  // namespace ingot::compiler::fusion
