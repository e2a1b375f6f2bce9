// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "compiler/fusion/lower/lower.h"
#include "compiler/ir/graph.h"
#include "compiler/loop/scalar.h"

namespace ingot::compiler {

/// Where the elements of a value lie that is given, in elements of its type from `data`.
struct GivenMemory {
  const void* data = nullptr;
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

/// Whether results of f16 and bf16 are rounded where eager rounds them, node by node, or go on in f32 as they do inside
/// of a kernel (docs/numerics.md). Casts and float8 round in both cases.
enum class Narrow : uint8_t { kRounded, kWide };

/// What a graph says that its values are, at given sizes: each node by the expression of its own operator, which is
/// followed element by element as it is written, without groups, loops, layouts or memory. It shares the rules of
/// operators (compiler/fusion/lower/lower.h) and arithmetic on scalars with what it judges, and nothing else.
///
/// Elements are computed when they are asked for and kept. Not thread-safe.
class Evaluation {
 public:
  /// `work_max`: operations on scalars until it gives up.
  Evaluation(const Graph& graph, std::span<const int64_t> symbols, uint64_t work_max, Narrow narrow);
  Evaluation(Evaluation&&) = delete;

  /// The value is what lies there, whatever its node would make of it. The memory outlives this.
  void Give(ValueId value, GivenMemory memory);
  /// Element `number` of the value, row-major. Anything once status() does not hold.
  loop::Scalar At(ValueId value, int64_t number);

  const std::vector<int64_t>& SizesOf(ValueId value);
  int64_t ElementsOf(ValueId value);
  /// kInvalid: an index out of range. kUnsupported: a value whose node has no expression. kExhausted: too much work.
  const Status& status() const { return status_; }
  uint64_t work() const { return work_; }

 private:
  static constexpr size_t kRankMax = 12;
  struct Place {
    std::array<int64_t, kRankMax> at;
    int64_t& operator[](size_t k) { return at[k]; }
    int64_t operator[](size_t k) const { return at[k]; }
  };
  /// fusion::Affine over numbers.
  struct Linear {
    int64_t offset = 0;
    std::vector<std::pair<uint16_t, int64_t>> vars;
    std::vector<std::pair<uint32_t, int64_t>> gathered;
  };
  /// An expression at the sizes of this evaluation.
  struct Bound {
    std::unique_ptr<const fusion::Expr> expr;  ///< its own: the pool moves
    std::vector<int64_t> sizes;
    std::vector<Linear> map, right;
    std::vector<int64_t> depths;
    int64_t start = 0, size = 0;
    std::unordered_map<int64_t, loop::Scalar> folded;  ///< of a reduction: by the number of the element
  };
  struct Cells {
    std::vector<int64_t> sizes;
    int64_t elements = -1;
    std::optional<GivenMemory> given;
    std::vector<loop::Scalar> values;  ///< dense
    std::vector<bool> known;
    std::unordered_map<int64_t, loop::Scalar> few;  ///< of values too large for that
    /// Of a node in place: which element of its source ends up at each place.
    std::optional<std::unordered_map<int64_t, int64_t>> stored;
  };

  loop::Scalar Fail(Code code, std::string why);
  Bound& BoundOf(fusion::ExprId id);
  std::vector<Linear> MapOf(const fusion::Coords& coords) const;
  int64_t Of(const Dim& dim) const { return dim.Eval(symbols_); }
  Cells& CellsOf(ValueId value);
  fusion::ExprId RootOf(ValueId value);

  loop::Scalar Given(const Cells& cells, DType dtype, int64_t number) const;
  loop::Scalar GivenAt(const Cells& cells, DType dtype, const Place& place) const;
  loop::Scalar Compute(ValueId value, Cells& cells, int64_t number);
  loop::Scalar AfterWrite(ValueId value, Cells& cells, fusion::ExprId root, int64_t number);
  loop::Scalar Eval(fusion::ExprId id, const Place& at);
  loop::Scalar EvalMap(const Bound& e, const Place& at);
  loop::Scalar EvalRegion(const Bound& e, Place at);
  loop::Scalar EvalGather(const Bound& e, const Place& at);
  loop::Scalar EvalReduce(Bound& e, Place at);
  loop::Scalar EvalScan(const Bound& e, Place at);
  loop::Scalar EvalContract(const Bound& e, const Place& at);
  /// The positions that index tensors name, checked; false where one is out of range.
  bool Indices(const Bound& e, std::span<const int64_t> table, const Place& at, std::vector<int64_t>& found);
  Place Apply(const std::vector<Linear>& map, const Place& at, std::span<const int64_t> indices = {}) const;
  bool FitsRank(size_t rank);

  const Graph& graph_;
  const std::vector<int64_t> symbols_;
  const uint64_t work_max_;
  const Narrow narrow_;
  fusion::ExprPool pool_;
  std::vector<std::optional<fusion::Results>> lowered_;  ///< by node
  std::vector<std::unique_ptr<Bound>> bound_;  ///< by expression
  std::vector<std::unique_ptr<Cells>> cells_;  ///< by value
  std::vector<int64_t> depth_at_;  ///< by depth variable: where a contraction is
  uint64_t work_ = 0;
  Status status_;
};

}  // namespace ingot::compiler
