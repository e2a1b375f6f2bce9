// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/ops/size_ties.h"
#include "guards/guard_set.h"

namespace ingot::compiler {

using guards::Dim;
using guards::Dims;

/// The sizes of a recording's inputs as symbols, and what a template made of the recording relies on.
///
/// Sizes that were seen equal are one symbol, until that turns out to be a number: then each is on
/// its own. 0 and 1 are numbers, since operators treat them otherwise. What is tied or fixed while a graph is walked
/// holds from the next walk on: walk until nothing has changed. While it lives it answers SameSize.
class Sizes final : public SizeTies {
 public:
  /// One symbol for each different value of two or more, in the order given, up to 64.
  explicit Sizes(std::vector<int64_t> values);

  /// Value number `place` as the symbols are now.
  Dim Of(size_t place) const;
  /// Symbols that are sizes of inputs.
  size_t count() const { return basic_.size(); }
  /// Values of the symbols as they are now.
  const std::vector<int64_t>& seen() const { return seen_; }
  int64_t Seen(const Dim& dim) const { return dim.Eval(seen_); }

  bool Tie(const Dim& a, const Dim& b) override;
  int64_t SeenAs(const Dim& dim) const override { return Seen(dim); }
  bool Decide(const Dim& dim) override;
  Dim Extreme(guards::Atom::Kind kind, const Dim& a, const Dim& b) override;
  /// Has every minimum and maximum in `dim` decided as it was, from the next walk on. False where there is none.
  bool DecideExtremes(const Dim& dim);
  Dim InQuotients(const Dim& dim) const override;
  /// Whether `zero`, which holds quotients by numbers, is 0 where divisions leave as much over as they did; that they
  /// do is noted then.
  bool TieRemainders(const Dim& zero);
  /// Makes every symbol of `dim` the number it was. `why` is for people.
  void Fix(const Dim& dim, const std::string& why);
  void FixAll(const std::string& why);
  /// `dim` is at least 0; true when it was.
  bool AtLeastZero(const Dim& dim);
  /// Its magnitude is no more than `most`; where it was more, its symbols are numbers.
  void Within(const Dim& dim, int64_t most);
  /// Whether it is 0 or more at all sizes of 2 or more, as far as bounds tell.
  bool IsNeverNegative(const Dim& dim) const;
  bool NotEqual(const Dim& a, const Dim& b);
  void Modulo(const Dim& dim, int64_t modulus, int64_t remainder);

  /// Something was tied or fixed since the last walk began.
  bool changed() const { return changed_; }
  void BeginWalk();
  /// The conditions of the last walk, with at least 2 for each size that is no number, simplified.
  Result<guards::GuardSet> Conditions() const;
  /// Why symbols became numbers, first come first.
  const std::vector<std::string>& fixed() const { return fixed_; }

 private:
  /// Over the symbols of the constructor, with all that is known replaced.
  Dim Basic(const Dim& dim) const;
  /// A sum of the symbols of the constructor that it is made of, within quotients too.
  Dim Involved(const Dim& dim) const;
  /// `value` divided by `modulus` leaves over what it did.
  struct Remainder {
    Dim value;  ///< without a number
    int64_t modulus = 1;
  };
  /// What each symbol of this walk is where these remainders are known: a symbol of each value is written by the
  /// value's quotient, which is a symbol behind all others or, where `by_sizes`, that quotient.
  Dims ByRemainders(const std::vector<Remainder>& known, bool by_sizes) const;
  void Replace(uint16_t symbol, const Dim& by);
  bool Split(uint16_t symbol);
  void FixBasic(const Dim& basic, const std::string& why);

  std::vector<int64_t> given_;
  std::vector<std::optional<uint16_t>> symbol_of_;  ///< of each that was given
  std::vector<int64_t> values_;  ///< of the symbols of the constructor, and of those split off
  Dims now_;  ///< what each of them is, over themselves
  std::vector<uint16_t> basic_;  ///< of each symbol as they are numbered in this walk
  Dims numbered_;  ///< what each symbol of the constructor is in this walk
  std::vector<int64_t> seen_;  ///< of all symbols of this walk
  std::vector<Remainder> remainders_;  ///< noted in this walk
  guards::GuardSet conditions_;
  std::vector<guards::Factor> decided_;  ///< minima and maxima, over the symbols of the constructor
  std::vector<std::string> fixed_;
  bool changed_ = false;
};

}  // namespace ingot::compiler
