// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler::fusion {

using loop::ScalarOp;

using ExprId = uint32_t;
inline constexpr ExprId kNoExpr = ~0u;

/// Variables from here on are those that contractions sum over (ExprPool::DepthVar): they are none of a group.
inline constexpr uint16_t kFirstDepth = 0x8000;
constexpr bool IsDepth(uint16_t var) { return var >= kFirstDepth; }
inline constexpr uint16_t kNoVar = UINT16_MAX;

/// One coordinate: offset + sum(coef * variable) + sum(coef * gathered value). Variables are the
/// dims of a result inside an Expr's map, and the loop variables of a group elsewhere.
struct Affine {
  Dim offset;
  std::vector<std::pair<uint16_t, Dim>> vars;      ///< sorted by variable, no zero coefficient
  std::vector<std::pair<uint32_t, Dim>> gathered;

  static Affine Of(Dim offset) { return {std::move(offset), {}, {}}; }
  static Affine Var(uint16_t var) { return {Dim(), {{var, Dim(1)}}, {}}; }
  /// this += coef * other
  void AddScaled(const Affine& other, const Dim& coef);
  bool IsZero() const { return offset.is_zero() && vars.empty() && gathered.empty(); }
  bool operator==(const Affine&) const = default;
};
using Coords = std::vector<Affine>;

enum class ExprKind : uint8_t {
  kValue,    ///< element of a graph value
  kConst,    ///< imm_f or imm_i
  kSize,     ///< size, as i64
  kIota,     ///< map[0] at the coordinates, as i64
  kMap,      ///< op over args, which broadcast
  kRound,    ///< args[0] rounded to the narrow float type `narrow`, kept in f32
  kView,     ///< args[0] at the coordinates that `map` gives
  kReshape,  ///< args[0] with other sizes over the same elements in order
  kRegion,   ///< start <= c[axis] < start + size ? args[0] at c[axis] - start : args[1] at c
  kNothing,  ///< what no element is: args[1] of the last of several regions that fill their dim
  kGather,   ///< args[0] at `map`, whose gathered terms name args[1 + i], indices under `check`
  kReduce,   ///< op over the dims in `reduced`, which stay with size 1
  kScan,     ///< op over args[0] along `axis`, up to each place
  kScatter,  ///< args[0], for memory: element c is stored at `map`, whose gathered terms name args[1 + i], as in
             ///< kGather
  kContract, ///< sum over `depths` of args[0] at `map` times args[1] at `right`, of dims and depths
};

/// One tensor-valued expression inside the lowering of a node. f16, bf16 and float8 are computed as f32.
struct Expr {
  ExprKind kind = ExprKind::kConst;
  ScalarOp op = ScalarOp::kConst;
  DType dtype = DType::kF32;   ///< computing type
  DType narrow = DType::kF32;  ///< kRound
  Dims sizes;
  std::vector<ExprId> args;
  ValueId value = kNoValue;
  double imm_f = 0;
  int64_t imm_i = 0;
  Dim size, start;
  Coords map;
  Coords right;           ///< kContract
  std::vector<uint16_t> depths;  ///< kContract: variables, outermost first
  uint32_t axis = 0;
  std::vector<bool> reduced;
  loop::IndexCheck check = loop::IndexCheck::kNone;
};

/// Narrow floats are computed in f32; everything else in itself.
constexpr DType ComputeType(DType t) {
  return t == DType::kF16 || t == DType::kBF16 || guards::IsFloat8(t) ? DType::kF32 : t;
}

/// Makes expressions. Every method takes kNoExpr operands and then gives kNoExpr, so that a rule
/// may be written as one formula and checked once at its end.
class ExprPool {
 public:
  explicit ExprPool(const Graph& graph);

  const Expr& operator[](ExprId id) const { return exprs_[id]; }
  const Graph& graph() const { return graph_; }

  ExprId Value(ValueId value);
  ExprId Float(double value, DType dtype = DType::kF32);
  ExprId Int(int64_t value, DType dtype = DType::kI64);
  ExprId Size(const Dim& size);
  ExprId Iota(Dims sizes, Affine index);
  ExprId Map(ScalarOp op, DType dtype, std::initializer_list<ExprId> args);
  /// Arithmetic: the type of the first operand.
  ExprId Map(ScalarOp op, std::initializer_list<ExprId> args);
  ExprId Cast(ExprId arg, DType to);            ///< to the computing type of `to`
  ExprId Round(ExprId arg, DType narrow);
  ExprId Expand(ExprId arg, const Dims& sizes);
  ExprId View(ExprId arg, Dims sizes, Coords map);
  ExprId Reshape(ExprId arg, Dims sizes);
  /// Both are there always; what lies around an image is an `outer` of its own.
  ExprId Region(ExprId inner, ExprId outer, Dims sizes, uint32_t axis, Dim start, Dim size);
  ExprId Nothing(DType dtype);
  ExprId Gather(ExprId table, std::vector<ExprId> indices, loop::IndexCheck check, Dims sizes, Coords map);
  /// What a node that works in place stores: `source` at `map`, dims of its operand, whose other elements stay.
  ExprId Scatter(ExprId source, std::vector<ExprId> indices, loop::IndexCheck check, Coords map);
  ExprId Reduce(ScalarOp op, DType dtype, ExprId arg, std::vector<bool> reduced);
  /// `op`: a scan. Along an axis of 1 it is `arg`.
  ExprId Scan(ScalarOp op, ExprId arg, uint32_t axis);
  /// Products of elements of two values, added up over `depths`, outermost first, in `dtype`.
  ExprId Contract(DType dtype, ExprId left, ExprId right, Dims sizes, std::vector<uint16_t> depths, Coords left_map,
                  Coords right_map);
  /// A variable to sum over, of `extent`; the `nth` of those with this extent.
  uint16_t DepthVar(const Dim& extent, size_t nth = 0);
  const Dim& DepthExtent(uint16_t var) const { return depth_extents_[var - kFirstDepth]; }
  /// Makes `var` of contraction `id` two variables, var = inner * outer variable + inner one; `inner` divides its
  /// extent.
  void CutDepth(ExprId id, uint16_t var, const Dim& inner);

 private:
  ExprId Add(Expr expr);

  const Graph& graph_;
  std::vector<Expr> exprs_;
  std::vector<ExprId> values_;
  Dims depth_extents_;
};

/// Whether a region puts what has one place along its dim beside something else: its index only chooses, both are there
/// whatever it is.
bool IsStacked(const ExprPool& pool, const Expr& region);

/// Coordinates of args[arg] of a contraction from those of its result.
Coords ContractionArg(const Expr& e, size_t arg, const Coords& at);

/// Coordinates of args[0] of a view, gather or the like, from those of its result.
Coords ApplyMap(const Coords& map, const Coords& at);

}  // namespace ingot::compiler::fusion
