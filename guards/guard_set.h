// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "guards/guard.h"

namespace ingot::guards {

/// What a symbol stands for: size `dim` of an input.
struct SymbolName {
  std::string input;
  uint32_t dim = 0;
};

/// Conditions that all must hold, in the order they were added, none twice: data that prints, parses,
/// compares and explains itself. Empty: no condition.
///
/// Text, over symbols and over named inputs and Python scalars (docs/format/guards.md):
///
///   s0 >= 2 and s0 <= 512 and s0 % 8 == 0 and s1 == 2*s0
///   x.dtype == f32 and x.size(0) == 4 and x.stride(0) == 1 and apart(x, y) and flag == True
///
/// Thread-compatible. Asking allocates nothing. Numbers beyond 2^53 are refused when a guard is
/// made; an evaluation that would leave 64 bits counts as "does not hold".
class GuardSet {
 public:
  /// kInvalid says what was expected at which column. "" gives the empty set.
  static Result<GuardSet> Parse(std::string_view text);
  /// Parses back to an equal set.
  std::string ToText() const;
  std::string ToText(const Guard& guard) const;

  bool empty() const { return guards_.empty(); }
  std::span<const Guard> guards() const { return guards_; }
  std::span<const std::string> inputs() const { return inputs_; }
  std::span<const std::string> scalars() const { return scalars_; }
  std::span<const Property> properties() const { return properties_; }
  /// One more than the highest symbol used.
  uint16_t SymbolCount() const;
  /// No guard asks for an input or a scalar, so Holds(symbols) decides.
  bool IsOverSymbols() const { return inputs_.empty() && scalars_.empty(); }

  /// False where a guard asks for a symbol, input or scalar that is not given.
  bool Holds(std::span<const int64_t> symbols) const { return Holds(Call{symbols, {}, {}}); }
  bool Holds(const Call& call) const;
  bool Holds(const Guard& guard, const Call& call) const;
  /// The first guard that fails, in words with what was found and the nearest values that would do;
  /// empty when all hold. `names` says what symbols stand for, may be empty; `noun` what inputs are.
  std::string Explain(std::span<const int64_t> symbols, std::span<const SymbolName> names = {}) const;
  std::string Explain(const Call& call, std::string_view noun = "input") const;

  /// An equal condition without guards that the others imply, bounds as tight as whole numbers
  /// allow. kInvalid names two guards that cannot hold together. Equal where no divisor is 0: who divides by a size
  /// asks that it is none.
  Result<GuardSet> Simplify() const;
  /// Symbol i replaced by `symbols[i]`, and property p of an input by `property(p)` where it gives a
  /// polynomial over symbols. kInvalid when a number grows too large.
  template <typename F>
  Result<GuardSet> Substitute(std::span<const Dim> symbols, F property) const {
    std::vector<Dim> by(symbols.begin(), symbols.end());
    std::vector<Dim> own;
    for (const Property& p : properties_) own.push_back(property(p));
    return SubstituteAll(by, own);
  }

  /// Numbers for names, made on first use.
  uint16_t AddInput(std::string_view name);
  uint16_t AddScalar(std::string_view name);
  /// The property as a polynomial of one variable.
  Dim Of(Property property);
  /// Normalises and adds unless it is there; a guard that always holds is left out. kInvalid: a
  /// number beyond 2^53, a modulus below 1.
  Status Add(Guard guard);
  Status AddEqual(const Dim& a, const Dim& b);

  bool operator==(const GuardSet& other) const { return ToText() == other.ToText(); }

 private:
  friend class Simplifier;
  /// "; nearest: 8 and 16": values of the guard's one symbol that all guards on it alone accept.
  std::string NearestTo(const Guard& failed, std::span<const int64_t> symbols) const;
  Result<GuardSet> SubstituteAll(std::span<const Dim> symbols, std::span<const Dim> properties) const;

  std::vector<Guard> guards_;
  std::vector<std::string> inputs_;
  std::vector<std::string> scalars_;
  std::vector<Property> properties_;
};

}  // namespace ingot::guards
