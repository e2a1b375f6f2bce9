// SPDX-License-Identifier: Apache-2.0
#include "client/native/symbolic/size_terms.h"

#include <algorithm>
#include <cstdlib>

#include "base/floored.h"
#include "client/native/cpython/drop_error.h"

namespace ingot::client {
namespace {

constexpr size_t kTermsMax = 1u << 20;
/// Python keeps one object for each integer up to here.
constexpr int64_t kKeptMax = 256, kKeptMin = -5;

uint64_t Mix(uint64_t a, uint64_t b) {
  a ^= b + 0x9E3779B97F4A7C15ull + (a << 6) + (a >> 2);
  return a * 0xFF51AFD7ED558CCDull;
}

/// An integer of one digit that is an object of its own.
PyObject* MakeSmall(int64_t value) {
#if PY_VERSION_HEX >= 0x030C0000
  PyLongObject* made = _PyLong_New(value == 0 ? 0 : 1);
#else
  PyLongObject* made = _PyLong_New(1);
#endif
  if (made == nullptr) return nullptr;
  const auto size = static_cast<digit>(std::abs(value));
#if PY_VERSION_HEX >= 0x030C0000
  constexpr uintptr_t kOneDigitBelowZero = 1u << 3 | 2u;  // As CPython's _PyLong_SetSignAndDigitCount has it.
  made->long_value.ob_digit[0] = size;
  if (value < 0) made->long_value.lv_tag = kOneDigitBelowZero;
#else
  made->ob_digit[0] = size;  // Of 0 as well: CPython reads it without looking at the count.
  Py_SET_SIZE(made, value > 0 ? 1 : value < 0 ? -1 : 0);
#endif
  return reinterpret_cast<PyObject*>(made);
}

}  // namespace

SizeTerms::Term SizeTerms::Add(const Node& node) {
  uint64_t hash = Mix(static_cast<uint64_t>(node.op), static_cast<uint64_t>(node.a));
  hash = Mix(hash, static_cast<uint64_t>(node.b));
  std::vector<Term>& same = by_hash_[hash];
  for (const Term term : same) {
    if (nodes_[term] == node) return term;
  }
  if (nodes_.size() >= kTermsMax) GiveUp("more computations with sizes than are followed");
  const auto term = static_cast<Term>(nodes_.size());
  nodes_.push_back(node);
  same.push_back(term);
  return term;
}

SizeTerms::Term SizeTerms::Number(int64_t value) { return Add({Op::Number, value, 0, value}); }

SizeTerms::Term SizeTerms::OfTensor(Op op, PyObject* tensor, int64_t dim, int64_t value) {
  if (const auto known = value_of_ ? value_of_(tensor) : std::nullopt) return Add({op, *known, dim, value});
  const auto [it, fresh] = tensor_numbers_.emplace(tensor, static_cast<int64_t>(tensors_.size()));
  if (fresh) tensors_.push_back(PythonRef::Borrow(tensor));
  return Add({op, -1 - it->second, dim, value});
}

std::optional<SizeTerms::Term> SizeTerms::Combine(Op op, Term a, Term b) {
  const int64_t x = ValueOf(a), y = ValueOf(b);
  int64_t value = 0;
  bool fails = false;
  switch (op) {
    case Op::Add: fails = __builtin_add_overflow(x, y, &value); break;
    case Op::Sub: fails = __builtin_sub_overflow(x, y, &value); break;
    case Op::Mul: fails = __builtin_mul_overflow(x, y, &value); break;
    case Op::FloorDiv:
    case Op::Mod:
      fails = y == 0 || y == -1;
      if (!fails) value = op == Op::FloorDiv ? FloorDiv(x, y) : FloorMod(x, y);
      break;
    case Op::Min: value = std::min(x, y); break;
    case Op::Max: value = std::max(x, y); break;
    default: fails = true;
  }
  if (fails) return std::nullopt;
  return Add({op, static_cast<int64_t>(a), static_cast<int64_t>(b), value});
}

PyObject* SizeTerms::OwnInt(int64_t value) {
  PyObject* made = value >= kKeptMin && value <= kKeptMax ? MakeSmall(value) : PyLong_FromLongLong(value);
  DropError();
  return made;
}

PyObject* SizeTerms::Make(Term term, const std::string& where) {
  PyObject* made = OwnInt(ValueOf(term));
  if (made == nullptr) {
    Fix(term, where);
    return nullptr;
  }
  terms_by_object_.emplace(made, term);
  held_.push_back(PythonRef::Borrow(made));
  return made;
}

void SizeTerms::Guard(Relation relation, Term left, Term right, const std::string& where) {
  if (nodes_[left].op == Op::Number && nodes_[right].op == Op::Number) return;
  if (left == right) return;
  const uint64_t key = static_cast<uint64_t>(relation) << 60 | static_cast<uint64_t>(left) << 30 | right;
  if (guards_known_.insert(key).second) guards_.push_back({relation, left, right, where});
}

bool SizeTerms::Depends(Term term, Term on) const {
  if (term == on) return true;
  switch (nodes_[term].op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::FloorDiv:
    case Op::Mod:
    case Op::Min:
    case Op::Max:
      return Depends(static_cast<Term>(nodes_[term].a), on) || Depends(static_cast<Term>(nodes_[term].b), on);
    default: return false;
  }
}

bool SizeTerms::IsAnyFixedOf(Term term) const {
  return std::ranges::any_of(fixed_, [&](Term fixed) { return Depends(fixed, term); });
}

void SizeTerms::Explain(const IntLog::Entry& entry, Term term) {
  ints_.push_back(proto::SizedInt(entry.step, entry.arg, entry.index, term));
}

std::optional<SizeNotes> SizeTerms::Notes() const {
  if (lost_ || !value_of_) return std::nullopt;
  SizeNotes notes;
  notes.guards = guards_;
  notes.ints = ints_;
  std::vector<std::optional<uint32_t>> values;
  for (const PythonRef& tensor : tensors_) values.push_back(value_of_(tensor.get()));
  for (const Node& node : nodes_) {
    const bool is_of_tensor =
        node.op == Op::Size || node.op == Op::Stride || node.op == Op::Elements || node.op == Op::IsContiguous;
    if (!is_of_tensor) {
      notes.exprs.emplace_back(node.op, node.a, node.b);
    } else if (const auto value = node.a >= 0 ? std::optional(static_cast<uint32_t>(node.a))
                                              : values[static_cast<size_t>(-1 - node.a)]) {
      notes.exprs.emplace_back(node.op, *value, node.b);
    } else {
      // No operator has met the tensor, nor is it passed: what it is like is part of what the run read.
      notes.exprs.emplace_back(Op::Number, node.value, 0);
    }
  }
  return notes;
}

void SizeTerms::End() {
  terms_by_object_.clear();
  held_.clear();
}

}  // namespace ingot::client
