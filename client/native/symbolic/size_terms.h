// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "client/native/cpython/python_ref.h"
#include "client/native/trace/int_log.h"

namespace ingot::client {

/// Integers of one run that were made of sizes, and how.
///
/// Such an integer is an object of its own, also where Python would keep one for all: wherever it
/// goes, in variables, containers and arguments, it is known by its identity, and only what computes
/// with it has to be looked at. What was found true of sizes is a guard. Belongs to one thread;
/// needs the GIL.
class SizeTerms {
 public:
  using Term = uint32_t;
  using Op = proto::SizeOp;
  using Relation = proto::SizeRelation;

  /// The term of an integer; none for one that has nothing to do with sizes.
  std::optional<Term> Find(PyObject* value) const {
    if (terms_by_object_.empty() || !PyLong_CheckExact(value)) return std::nullopt;
    const auto it = terms_by_object_.find(value);
    return it == terms_by_object_.end() ? std::nullopt : std::optional(it->second);
  }
  bool empty() const { return terms_by_object_.empty(); }

  int64_t ValueOf(Term term) const { return nodes_[term].value; }
  Term Number(int64_t value);
  bool IsNumber(Term term) const { return nodes_[term].op == Op::Number; }
  /// Of dim `dim` of a tensor, or of all of it.
  Term OfTensor(Op op, PyObject* tensor, int64_t dim, int64_t value);
  /// None where the value leaves 64 bits, or is divided by zero.
  std::optional<Term> Combine(Op op, Term a, Term b);

  /// The integer that stands for a term, a new reference; null, without an error, where memory is short: the term is
  /// then fixed.
  PyObject* Make(Term term, const std::string& where);
  /// An integer that is an object of its own, also where Python keeps one for all, a new reference; null, without an
  /// error, where memory is short.
  static PyObject* OwnInt(int64_t value);

  void Guard(Relation relation, Term left, Term right, const std::string& where);
  /// The value is what it was.
  void Fix(Term term, const std::string& where) {
    fixed_.insert(term);
    Guard(Relation::Equal, term, Number(ValueOf(term)), where);
  }
  /// Whether a tensor may have its value, in every call that BoundForTensor() leaves.
  bool MayBeTensor(Term term) const { return !lost_ && std::abs(ValueOf(term)) <= kTensorMax; }
  void BoundForTensor(Term term, const std::string& where) {
    Guard(Relation::LessOrEqual, term, Number(kTensorMax), where);
    Guard(Relation::LessOrEqual, Number(-kTensorMax), term, where);
  }
  /// Whether something looked at the value of what was computed with a term.
  bool IsAnyFixedOf(Term term) const;
  /// Integer `entry` of an operator's call is the term.
  void Explain(const IntLog::Entry& entry, Term term);

  /// Nobody knows any more what was done with sizes. The first reason counts.
  void GiveUp(std::string why) {
    if (!lost_) lost_ = std::move(why);
  }
  const std::optional<std::string>& lost() const { return lost_; }

  /// Which value of the recording a tensor is; none for one that no operator has met.
  using TensorValue = std::function<std::optional<uint32_t>(PyObject* tensor)>;
  void set_value_of(TensorValue value_of) { value_of_ = std::move(value_of); }
  /// What a recording carries. None where it was given up, or nobody said which value a tensor is.
  std::optional<SizeNotes> Notes() const;
  /// Lets go of what Notes() does not need.
  void End();

 private:
  static constexpr int64_t kTensorMax = int64_t{1} << 31;

  struct Node {
    Op op;
    int64_t a, b;
    int64_t value;
    auto operator<=>(const Node&) const = default;
  };
  Term Add(const Node& node);
  bool Depends(Term term, Term on) const;

  std::vector<Node> nodes_;
  boost::unordered_flat_map<uint64_t, std::vector<Term>> by_hash_;
  boost::unordered_flat_map<PyObject*, Term> terms_by_object_;
  TensorValue value_of_;
  /// Tensors that no operator had met when they were looked at; node.a is -1 - their number.
  std::vector<PythonRef> tensors_;
  boost::unordered_flat_map<PyObject*, int64_t> tensor_numbers_;
  std::vector<PythonRef> held_;
  std::vector<SizeNotes::Guard> guards_;
  boost::unordered_flat_set<uint64_t> guards_known_;
  boost::unordered_flat_set<Term> fixed_;
  std::vector<proto::SizedInt> ints_;
  std::optional<std::string> lost_;
};

}  // namespace ingot::client
