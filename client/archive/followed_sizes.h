// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "client/native/trace/int_log.h"

namespace ingot::client {

class Sizes;

/// A result that leaves 64 bits, or a quotient that nobody follows.
class SizeError : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// An integer of a run: a number, or made of sizes of inputs. Arithmetic is followed, and what is asked of one that is
/// made of sizes is a condition under which a recording holds (Sizes). Throws SizeError.
class Int {
 public:
  Int(int64_t value = 0) : value_(value) {}  // NOLINT: numbers are integers
  Int(Sizes* sizes, uint32_t term, int64_t value) : sizes_(sizes), term_(term), value_(value) {}

  /// What it is in this run. Whoever decides by it fixes it first.
  int64_t seen() const { return value_; }
  bool is_number() const { return sizes_ == nullptr; }
  uint32_t term() const { return term_; }
  Sizes* sizes() const { return sizes_; }
  /// The value, which from here on is the same in every call.
  int64_t Fix() const;

  friend Int operator+(const Int& a, const Int& b);
  friend Int operator-(const Int& a, const Int& b);
  friend Int operator*(const Int& a, const Int& b);
  friend bool operator==(const Int& a, const Int& b);
  friend bool operator<(const Int& a, const Int& b);
  friend bool operator>(const Int& a, const Int& b) { return b < a; }
  friend bool operator<=(const Int& a, const Int& b) { return !(b < a); }
  friend bool operator>=(const Int& a, const Int& b) { return !(a < b); }

 private:
  Sizes* sizes_ = nullptr;
  uint32_t term_ = 0;
  int64_t value_ = 0;
};

using Ints = std::vector<Int>;
/// What they are in this run.
std::vector<int64_t> Seen(const Ints& ints);

/// Quotient rounded down, and what it leaves over; `b` is positive.
Int FloorDiv(const Int& a, const Int& b);
Int Mod(const Int& a, const Int& b);
/// Rounded towards zero, as ONNX divides integers.
Int TruncDiv(const Int& a, const Int& b);
Int Least(const Int& a, const Int& b);
Int Largest(const Int& a, const Int& b);
/// The same without asking which it is: it holds whichever is larger.
Int Maximum(const Int& a, const Int& b);
Int Minimum(const Int& a, const Int& b);

/// Integers of one run that were made of sizes, and what was found true of them, as a recording carries it
/// (proto/graph.fbs). Lives as long as its Ints.
class Sizes {
 public:
  Sizes() = default;
  Sizes(const Sizes&) = delete;
  Sizes& operator=(const Sizes&) = delete;

  /// What is asked from here on is asked by this; for people.
  void set_where(std::string where) { where_ = std::move(where); }

  /// Size `dim` of a value of the recording.
  Int OfValue(uint32_t value, int64_t dim, int64_t seen);
  Int Combine(proto::SizeOp op, const Int& a, const Int& b, int64_t value);
  void Note(proto::SizeRelation relation, const Int& a, const Int& b);
  /// The integer that an operator was called with is this one.
  void Explain(const IntLog::Entry& entry, const Int& value);

  SizeNotes Notes() const { return notes_; }

 private:
  uint32_t TermOf(const Int& value);
  uint32_t Add(proto::SizeOp op, int64_t a, int64_t b);

  SizeNotes notes_;
  std::map<std::tuple<proto::SizeOp, int64_t, int64_t>, uint32_t> known_;
  std::set<std::tuple<proto::SizeRelation, uint32_t, uint32_t>> noted_;
  std::string where_;
};

}  // namespace ingot::client
