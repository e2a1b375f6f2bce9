// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/call.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace ingot::compiler {
namespace {

// A fold of fewer elements is done before a second thread has started.
constexpr int64_t kLong = 1 << 17;
// What one partial sum takes in at least.
constexpr int64_t kPieceMin = 1 << 12;
// Partial sums: enough for any number of threads to share, few enough to add up at once.
constexpr int64_t kPiecesMin = 16, kPiecesMax = 1024, kPiecesWished = 64;
// What one takes in where nobody knows how many there are.
constexpr int64_t kUnknownPiece = 1 << 13;
// As many results are shared between threads as they are.
constexpr int64_t kResultsMax = 8;

/// What becomes of a dim: it stays, or the first sum takes it in, or the second.
enum class Role : uint8_t { kKept, kFirst, kSecond };

/// A sum or mean: of `operand`, seen as `type`, whose dims have `roles`.
struct Fold {
  ValueId operand = kNoValue;
  Type type;
  std::vector<Role> roles;
  bool is_mean = false;
};

/// The node as a fold whose dims are all kept or the first sum's.
std::optional<Fold> FoldOf(const Graph& graph, const Node& node) {
  const bool is_sum = node.op == "aten.sum" || node.op == "aten.sum.dim_IntList";
  const bool is_mean = node.op == "aten.mean" || node.op == "aten.mean.dim";
  if (!(is_sum || is_mean) || !IsPure(node)) return std::nullopt;
  const Call call(graph, node);
  const Type* type = call.TypeAt(0);
  if (type == nullptr || type->rank() == 0) return std::nullopt;
  const bool folds_all = node.op == "aten.sum" || node.op == "aten.mean" || call.IsNone(1);
  const auto dims = folds_all ? std::vector<int64_t>() : call.IntsAt(1);
  if (!dims) return std::nullopt;
  const Role all = dims->empty() ? Role::kFirst : Role::kKept;
  Fold fold{call.ValueAt(0), *type, std::vector<Role>(type->rank(), all), is_mean};
  for (const int64_t dim : *dims) {
    const auto at = WrapDim(dim, type->rank());
    if (!at) return std::nullopt;
    fold.roles[*at] = Role::kFirst;
  }
  return fold;
}

Dim ElementsOf(const Fold& fold, Role role) {
  Dim product = 1;
  for (size_t k = 0; k < fold.roles.size(); ++k) {
    if (fold.roles[k] == role) product = product * fold.type.sizes[k];
  }
  return product;
}

/// The divisor of `size` that makes, times `outer`, most nearly as many pieces as wished; 0 where none does.
int64_t PiecesOf(int64_t size, int64_t outer, int64_t elements) {
  const int64_t most = std::min(kPiecesMax, elements / kPieceMin);
  int64_t best = 0;
  for (int64_t count = (kPiecesMin + outer - 1) / outer; count * outer <= most; ++count) {
    const auto distance = [&](int64_t c) { return std::abs(c * outer - kPiecesWished); };
    if (size % count == 0 && (best == 0 || distance(count) < distance(best))) best = count;
  }
  return best;
}

/// Gives folded dims from the front to the second sum, the last of them perhaps cut in two: what the first takes in
/// then lies together.
bool Divide(Fold& fold) {
  const Dim all = ElementsOf(fold, Role::kFirst);
  if (!all.is_const()) {
    // Nobody knows how many pieces the unknown sizes make; what each takes in is known.
    bool is_unknown = false;
    for (size_t k = fold.roles.size(); k-- > 0;) {
      is_unknown |= fold.roles[k] == Role::kFirst && !fold.type.sizes[k].is_const();
      if (is_unknown && fold.roles[k] == Role::kFirst) fold.roles[k] = Role::kSecond;
    }
    return ElementsOf(fold, Role::kFirst).const_value() >= kPieceMin;
  }
  if (all.const_value() < kLong) return false;
  int64_t outer = 1;
  for (size_t k = 0; k < fold.roles.size() && outer <= kPiecesMax; ++k) {
    if (fold.roles[k] != Role::kFirst) continue;
    const int64_t size = fold.type.sizes[k].const_value();
    const int64_t count = PiecesOf(size, outer, all.const_value());
    fold.roles[k] = Role::kSecond;
    outer *= size;
    if (count == 0) continue;
    if (count == size) return true;
    const Dim piece(size / count);
    const auto after = static_cast<ptrdiff_t>(k) + 1;
    fold.roles.insert(fold.roles.begin() + after, Role::kFirst);
    fold.type.sizes[k] = Dim(count);
    fold.type.sizes.insert(fold.type.sizes.begin() + after, piece);
    fold.type.strides.insert(fold.type.strides.begin() + after, fold.type.strides[k]);
    fold.type.strides[k] = fold.type.strides[k] * piece;
    return true;
  }
  return false;
}

/// sum(x) as the sum of partial sums, in f32 where the result is narrower.
void Rewrite(Graph& graph, NodeId id, const Fold& fold) {
  const Type result = graph.type(graph.node(id).results[0]);
  const DType wide = result.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Dim count = ElementsOf(fold, Role::kFirst) * ElementsOf(fold, Role::kSecond);
  Dims first, second, partial, rest;
  for (size_t k = 0; k < fold.roles.size(); ++k) {
    const Dim& size = fold.type.sizes[k];
    if (fold.roles[k] == Role::kFirst) {
      first.push_back(Dim(static_cast<int64_t>(k)));
      continue;
    }
    if (fold.roles[k] == Role::kSecond) second.push_back(Dim(static_cast<int64_t>(partial.size())));
    if (fold.roles[k] == Role::kKept) rest.push_back(size);
    partial.push_back(size);
  }
  GraphBuilder builder(graph, id);
  const auto insert = [&](std::string op, std::vector<Arg> args, Dims sizes) {
    return builder.Typed(std::move(op), std::move(args), Type::Contiguous(wide, std::move(sizes)));
  };
  Ref x{fold.operand};
  if (fold.type != graph.type(x.id)) x = builder.Typed("aten.view", {x, fold.type.sizes}, fold.type);
  x = insert("aten.sum.dim_IntList", {x, first, false, DTypeArg{wide}}, std::move(partial));
  x = insert("aten.sum.dim_IntList", {x, second, false, None{}}, rest);
  if (fold.is_mean) x = insert("aten.div.Tensor", {x, Number{count}}, rest);
  if (rest != result.sizes) x = insert("aten.view", {x, result.sizes}, result.sizes);
  if (wide != result.dtype) {
    x = builder.Typed("aten.to.dtype", {x, DTypeArg{result.dtype}, false, false, None{}}, result);
  }
  ReplaceNode(graph, id, x.id);
}

/// All of an input of unknown size as the sum of whole pieces, as many as there are, and of what is left over. Others
/// would be computed once for each of the two.
bool RewriteUnknown(Graph& graph, NodeId id, const Fold& fold) {
  const Dim all = ElementsOf(fold, Role::kFirst);
  const bool folds_all = std::ranges::all_of(fold.roles, [](Role role) { return role == Role::kFirst; });
  if (all.is_const() || !folds_all || !fold.type.IsContiguous() || graph.value(fold.operand).def != kNoNode) {
    return false;
  }
  const Dim piece(kUnknownPiece);
  const auto count = Dim::FloorDiv(all, piece);
  if (!count) return false;
  const Type result = graph.type(graph.node(id).results[0]);
  const DType wide = result.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  GraphBuilder builder(graph, id);
  const auto view = [&](std::string op, std::vector<Arg> args, Dims sizes) {
    return builder.Typed(std::move(op), std::move(args), Type::Contiguous(fold.type.dtype, std::move(sizes)));
  };
  const auto make = [&](std::string op, std::vector<Arg> args, Dims sizes) {
    return builder.Typed(std::move(op), std::move(args), Type::Contiguous(wide, std::move(sizes)));
  };
  Ref x{fold.operand};
  if (fold.type.rank() != 1) x = view("aten.view", {x, Dims{all}}, {all});
  const Dim whole = *count * piece;
  const Ref pieces =
      view("aten.view", {view("aten.slice.Tensor", {x, Dim(0), Dim(0), whole, Dim(1)}, {whole}), Dims{*count, piece}},
           {*count, piece});
  const Ref left = view("aten.slice.Tensor", {x, Dim(0), whole, all, Dim(1)}, {all - whole});
  const Ref partial = make("aten.sum.dim_IntList", {pieces, Dims{Dim(1)}, false, DTypeArg{wide}}, {*count});
  x = make("aten.add.Tensor",
           {make("aten.sum.dim_IntList", {partial, Dims{Dim(0)}, false, None{}}, {}),
            make("aten.sum.dim_IntList", {left, Dims{Dim(0)}, false, DTypeArg{wide}}, {}), Dim(1)},
           {});
  if (fold.is_mean) x = make("aten.div.Tensor", {x, Number{all}}, {});
  if (!result.sizes.empty()) x = make("aten.view", {x, result.sizes}, result.sizes);
  if (wide != result.dtype) {
    x = builder.Typed("aten.to.dtype", {x, DTypeArg{result.dtype}, false, false, None{}}, result);
  }
  ReplaceNode(graph, id, x.id);
  return true;
}

bool IsWorthwhile(const Graph& graph, NodeId id, const Fold& fold) {
  const Type& result = graph.type(graph.node(id).results[0]);
  if (!guards::IsFloat(result.dtype) || !guards::IsFloat(fold.type.dtype)) return false;
  const Dim results = ElementsOf(fold, Role::kKept);
  return results.is_const() && results.const_value() <= kResultsMax;
}

}  // namespace

Result<bool> SplitReductions(Graph& graph) {
  bool changed = false;
  const std::vector<NodeId> order = graph.order();
  for (const NodeId id : order) {
    std::optional<Fold> fold = FoldOf(graph, graph.node(id));
    if (!fold || !IsWorthwhile(graph, id, *fold)) continue;
    const Fold whole = *fold;
    if (Divide(*fold)) {
      Rewrite(graph, id, *fold);
    } else if (!RewriteUnknown(graph, id, whole)) {
      continue;
    }
    changed = true;
  }
  return changed;
}

}  // namespace ingot::compiler
