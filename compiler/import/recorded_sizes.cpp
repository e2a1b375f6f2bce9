// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/recorded_sizes.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/floored.h"
#include "guards/normalize.h"

namespace ingot::compiler {
namespace {

constexpr size_t kTermsMax = 64;

uint64_t Place(uint64_t step, uint64_t arg, uint64_t index) { return step << 32 | arg << 16 | index; }

size_t SizeDegree(const Dim& dim) {
  size_t degree = 0;
  for (const Dim::Term& term : dim.terms()) degree = std::max(degree, term.factors.size());
  return degree;
}

}  // namespace

Status RecordedSizes::Read() {
  const auto* ints = recording_.root().sized_ints();
  const auto* exprs = recording_.root().size_exprs();
  const size_t expr_count = exprs ? exprs->size() : 0;
  for (size_t i = 0; ints && i < ints->size(); ++i) {
    const proto::SizedInt& sized = *ints->Get(static_cast<uint32_t>(i));
    if (sized.step() >= recording_.step_count() || sized.arg() > 0xFFFF || sized.index() > 0xFFFF ||
        sized.expr() >= expr_count)
      return CorruptRecording("an integer of no step");
    exprs_[Place(sized.step(), sized.arg(), sized.index())] = sized.expr();
  }
  return {};
}

Result<std::optional<Dim>> RecordedSizes::IntAt(size_t step, size_t arg, size_t index) {
  if (arg > 0xFFFF || index > 0xFFFF) return std::optional<Dim>();
  const auto found = exprs_.find(Place(step, arg, index));
  if (found == exprs_.end()) return std::optional<Dim>();
  TRY_ASSIGN(const Dim term, TermAt(found->second));
  return std::optional<Dim>(term);
}

Result<Dim> RecordedSizes::TermAt(uint32_t index) {
  const auto* exprs = recording_.root().size_exprs();
  if (exprs == nullptr || index >= exprs->size()) return CorruptRecording("a size that is not there");
  // Each entry names earlier ones only, so that filling up ends.
  while (terms_.size() <= index) {
    TRY_ASSIGN(Dim term, MakeTerm(*exprs->Get(static_cast<uint32_t>(terms_.size())), terms_.size()));
    terms_.push_back(std::move(term));
  }
  return terms_[index];
}

Result<Dim> RecordedSizes::MakeTerm(const proto::SizeExpr& expr, size_t own) {
  using Op = proto::SizeOp;
  const auto op = expr.op();
  if (op == Op::Number) return Dim(expr.a());
  if (op == Op::Size || op == Op::Stride || op == Op::Elements || op == Op::IsContiguous) return TensorTerm(expr);
  if (op > Op::Max) return CorruptRecording("a size made in an unknown way");
  if (expr.a() < 0 || expr.b() < 0 || static_cast<uint64_t>(expr.a()) >= own || static_cast<uint64_t>(expr.b()) >= own)
    return CorruptRecording("a size made of later ones");
  const Dim a = terms_[static_cast<size_t>(expr.a())], b = terms_[static_cast<size_t>(expr.b())];
  const int64_t x = sizes_.Seen(a), y = sizes_.Seen(b);
  if (op == Op::Add || op == Op::Sub || op == Op::Mul) {
    // Numbers among the terms may leave 64 bits where what was computed did not.
    const Result<Dim> made = op == Op::Mul ? guards::Multiply(a, b) : guards::Sum(a, op == Op::Add ? b : b * Dim(-1));
    if (made) return Short(*made, a, b);
    FixBoth(a, b, "a computation with large numbers");
    int64_t value = 0;
    const bool is_beyond = op == Op::Mul   ? __builtin_mul_overflow(x, y, &value)
                           : op == Op::Add ? __builtin_add_overflow(x, y, &value)
                                           : __builtin_sub_overflow(x, y, &value);
    return is_beyond ? CorruptRecording("a size beyond 64 bits") : Result<Dim>(Dim(value));
  }
  if (op == Op::Min || op == Op::Max) {
    return sizes_.Extreme(op == Op::Min ? guards::Atom::Kind::kMin : guards::Atom::Kind::kMax, a, b);
  }
  if (y == 0) return CorruptRecording("a size divided by zero");
  if (const auto exact = a.DivideExactly(b)) return Short(op == Op::FloorDiv ? *exact : Dim(0), a, b);
  if (const auto quotient = y > 0 ? FloorQuotient(a, b) : std::nullopt) {
    return Short(op == Op::FloorDiv ? *quotient : a - *quotient * b, a, b);
  }
  FixBoth(a, b, op == Op::Mod ? "a remainder of sizes" : "a quotient of sizes");
  return Dim(op == Op::Mod ? FloorMod(x, y) : FloorDiv(x, y));
}

Dim RecordedSizes::Short(const Dim& made, const Dim& a, const Dim& b) {
  if (made.terms().size() <= kTermsMax && SizeDegree(made) <= 4) return made;
  FixBoth(a, b, "a long computation with sizes");
  return Dim(sizes_.Seen(made));
}

void RecordedSizes::FixBoth(const Dim& a, const Dim& b, const std::string& why) {
  sizes_.Fix(a, why);
  sizes_.Fix(b, why);
}

Result<Dim> RecordedSizes::TensorTerm(const proto::SizeExpr& expr) {
  using Op = proto::SizeOp;
  if (expr.a() < 0 || static_cast<uint64_t>(expr.a()) >= imported_.value_of.size())
    return CorruptRecording("a size of no value");
  const size_t id = static_cast<size_t>(expr.a());
  const Type& exact = recording_.meta(static_cast<uint32_t>(id)).type;
  const bool has_dim = expr.op() == Op::Size || expr.op() == Op::Stride;
  if (has_dim && (expr.b() < 0 || static_cast<uint64_t>(expr.b()) >= exact.rank()))
    return CorruptRecording("a size of a dim that is not there");
  const size_t dim = static_cast<size_t>(expr.b());
  const ValueId value = imported_.value_of[id];
  // A value without a node has the sizes of what it was made of: nobody has followed them.
  const bool known =
      value != kNoValue && is_generalized_[value] && layouts_.Matches(generalized_.type(value).sizes, exact.sizes);
  if (!known) sizes_.FixAll("sizes of a tensor that left no node");
  const Type& type = known ? generalized_.type(value) : exact;
  switch (expr.op()) {
    case Op::Size: return type.sizes[dim];
    case Op::Elements: return type.Elements();
    case Op::Stride:
      if (sizes_.Seen(type.strides[dim]) != exact.strides[dim].const_value()) {
        layouts_.Fix(type, "strides of a tensor");
        return exact.strides[dim];
      }
      return type.strides[dim];
    default: break;
  }
  const bool is_contiguous = exact.IsContiguous();
  if (is_contiguous != type.IsContiguous()) layouts_.Fix(type, "whether a tensor is contiguous");
  for (const Dim& size : type.sizes) {
    if (!size.is_const() && !is_contiguous) sizes_.AtLeastZero(size - Dim(2));
  }
  return Dim(is_contiguous ? 1 : 0);
}

Status RecordedSizes::NoteGuards() {
  const auto* all = recording_.root().size_guards();
  for (size_t i = 0; all && i < all->size(); ++i) {
    const proto::SizeGuard& guard = *all->Get(static_cast<uint32_t>(i));
    TRY_ASSIGN(const Dim left, TermAt(guard.left()));
    TRY_ASSIGN(const Dim right, TermAt(guard.right()));
    const std::string where = guard.where() ? guard.where()->str() : "";
    bool holds = false;
    switch (guard.relation()) {
      case proto::SizeRelation::Equal:
        if (right.is_const() && !left.is_const() && !sizes_.TieRemainders(left - right))
          sizes_.Fix(left - right, fmt::format("a size of {}, at {}", right.ToText(), where));
        holds = SameSize(left, right);
        break;
      case proto::SizeRelation::NotEqual: holds = sizes_.NotEqual(left, right); break;
      case proto::SizeRelation::Less: holds = sizes_.AtLeastZero(right - left - Dim(1)); break;
      case proto::SizeRelation::LessOrEqual: holds = sizes_.AtLeastZero(right - left); break;
      default: return CorruptRecording("an unknown relation of sizes");
    }
    if (!holds) return CorruptRecording("sizes contradict what was asked of them");
  }
  return {};
}

Status RecordedSizes::TieInputs() {
  const auto* all = recording_.root().size_guards();
  const auto* exprs = recording_.root().size_exprs();
  // Symbols and numbers alone; nullopt: it is made of others.
  const auto plain = [&](uint32_t index) -> Result<std::optional<Dim>> {
    if (exprs == nullptr || index >= exprs->size()) return std::optional<Dim>();
    const proto::SizeExpr& expr = *exprs->Get(index);
    if (expr.op() == proto::SizeOp::Number) return std::optional(Dim(expr.a()));
    const bool is_there = expr.op() == proto::SizeOp::Size && expr.a() >= 0 &&
                          static_cast<uint64_t>(expr.a()) < imported_.value_of.size();
    const ValueId value = is_there ? imported_.value_of[static_cast<size_t>(expr.a())] : kNoValue;
    if (value == kNoValue || !is_generalized_[value]) return std::optional<Dim>();
    TRY_ASSIGN(Dim size, TensorTerm(expr));
    return std::optional(std::move(size));
  };
  for (size_t i = 0; all && i < all->size(); ++i) {
    const proto::SizeGuard& guard = *all->Get(static_cast<uint32_t>(i));
    if (guard.relation() != proto::SizeRelation::Equal) continue;
    TRY_ASSIGN(const auto left, plain(guard.left()));
    TRY_ASSIGN(const auto right, plain(guard.right()));
    // What does not hold is found with all other conditions.
    if (!left || !right || left->is_const() || sizes_.Seen(*left) != sizes_.Seen(*right)) continue;
    if (right->is_const()) {
      const std::string where = guard.where() ? guard.where()->str() : "";
      sizes_.Fix(*left - *right, fmt::format("a size of {}, at {}", right->ToText(), where));
    } else {
      SameSize(*left, *right);
    }
  }
  return {};
}

}  // namespace ingot::compiler
