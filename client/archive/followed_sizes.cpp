// SPDX-License-Identifier: Apache-2.0
#include "client/archive/followed_sizes.h"

#include <algorithm>

#include "base/floored.h"

namespace ingot::client {
namespace {

using Op = proto::SizeOp;
using Relation = proto::SizeRelation;

Int Combined(Op op, const Int& a, const Int& b, bool overflows, int64_t value) {
  if (overflows) throw SizeError("an integer beyond 64 bits");
  Sizes* const sizes = a.is_number() ? b.sizes() : a.sizes();
  return sizes == nullptr ? Int(value) : sizes->Combine(op, a, b, value);
}

/// Notes what was found, and gives it.
bool Noted(Relation relation, bool holds, const Int& a, const Int& b, Relation otherwise, bool turned) {
  Sizes* const sizes = a.is_number() ? b.sizes() : a.sizes();
  if (sizes == nullptr) return holds;
  const bool turns = !holds && turned;
  sizes->Note(holds ? relation : otherwise, turns ? b : a, turns ? a : b);
  return holds;
}

}  // namespace

std::vector<int64_t> Seen(const Ints& ints) {
  std::vector<int64_t> values;
  for (const Int& value : ints) values.push_back(value.seen());
  return values;
}

int64_t Int::Fix() const {
  if (sizes_ != nullptr) sizes_->Note(Relation::Equal, *this, Int(value_));
  return value_;
}

Int operator+(const Int& a, const Int& b) {
  int64_t value = 0;
  const bool overflows = __builtin_add_overflow(a.value_, b.value_, &value);
  return Combined(Op::Add, a, b, overflows, value);
}
Int operator-(const Int& a, const Int& b) {
  int64_t value = 0;
  const bool overflows = __builtin_sub_overflow(a.value_, b.value_, &value);
  return Combined(Op::Sub, a, b, overflows, value);
}
Int operator*(const Int& a, const Int& b) {
  int64_t value = 0;
  const bool overflows = __builtin_mul_overflow(a.value_, b.value_, &value);
  return Combined(Op::Mul, a, b, overflows, value);
}
bool operator==(const Int& a, const Int& b) {
  return Noted(Relation::Equal, a.value_ == b.value_, a, b, Relation::NotEqual, false);
}
bool operator<(const Int& a, const Int& b) {
  return Noted(Relation::Less, a.value_ < b.value_, a, b, Relation::LessOrEqual, true);
}

Int FloorDiv(const Int& a, const Int& b) {
  if (b <= Int(0)) throw SizeError("a size divided by a number that is not positive");
  return Combined(Op::FloorDiv, a, b, false, ingot::FloorDiv(a.seen(), b.seen()));
}
Int Mod(const Int& a, const Int& b) {
  if (b <= Int(0)) throw SizeError("the remainder of a size by a number that is not positive");
  return Combined(Op::Mod, a, b, false, FloorMod(a.seen(), b.seen()));
}
Int TruncDiv(const Int& a, const Int& b) {
  if (b < Int(0)) return TruncDiv(Int(0) - a, Int(0) - b);
  return a < Int(0) ? Int(0) - FloorDiv(Int(0) - a, b) : FloorDiv(a, b);
}
Int Least(const Int& a, const Int& b) { return b < a ? b : a; }
Int Largest(const Int& a, const Int& b) { return a < b ? b : a; }
Int Maximum(const Int& a, const Int& b) { return Combined(Op::Max, a, b, false, std::max(a.seen(), b.seen())); }
Int Minimum(const Int& a, const Int& b) { return Combined(Op::Min, a, b, false, std::min(a.seen(), b.seen())); }

uint32_t Sizes::Add(Op op, int64_t a, int64_t b) {
  const auto [at, fresh] = known_.emplace(std::tuple(op, a, b), static_cast<uint32_t>(notes_.exprs.size()));
  if (fresh) notes_.exprs.emplace_back(op, a, b);
  return at->second;
}

uint32_t Sizes::TermOf(const Int& value) { return value.is_number() ? Add(Op::Number, value.seen(), 0) : value.term(); }

Int Sizes::OfValue(uint32_t value, int64_t dim, int64_t seen) { return {this, Add(Op::Size, value, dim), seen}; }

Int Sizes::Combine(Op op, const Int& a, const Int& b, int64_t value) {
  const uint32_t first = TermOf(a), second = TermOf(b);
  return {this, Add(op, first, second), value};
}

void Sizes::Note(Relation relation, const Int& a, const Int& b) {
  const uint32_t first = TermOf(a), second = TermOf(b);
  if (first == second) return;
  if (noted_.emplace(relation, first, second).second) notes_.guards.push_back({relation, first, second, where_});
}

void Sizes::Explain(const IntLog::Entry& entry, const Int& value) {
  if (!value.is_number()) notes_.ints.emplace_back(entry.step, entry.arg, entry.index, value.term());
}

}  // namespace ingot::client
