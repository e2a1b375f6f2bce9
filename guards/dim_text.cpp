// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <charconv>

#include "guards/dim.h"

namespace ingot::guards {
namespace {

/// Terms of a product of sums that functions gave.
constexpr size_t kProductTermsMax = 256;

std::string FactorText(const Factor& factor) {
  if (factor.is_symbol()) return "s" + std::to_string(factor.symbol());
  const Atom& atom = factor.atom();
  return std::string(NameOf(atom.kind)) + "(" + atom.a.ToText() + ", " + atom.b.ToText() + ")";
}

std::string TermText(const Dim::Term& term) {
  // Of the lowest integer too, which has no negative.
  const auto bits = static_cast<uint64_t>(term.coef);
  const uint64_t magnitude = term.coef < 0 ? 0 - bits : bits;
  std::string text;
  if (term.factors.empty() || magnitude != 1) text = std::to_string(magnitude);
  for (const Factor& factor : term.factors) text += (text.empty() ? "" : "*") + FactorText(factor);
  return text;
}

class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> Run() {
    TRY_ASSIGN(Dim dim, ParseSum(0));
    SkipSpaces();
    if (at_ != text_.size()) return Fail("'+' or '-'");
    return dim;
  }

 private:
  Result<Dim> ParseSum(uint32_t depth) {
    std::vector<Dim::Term> terms;
    Dim with_atoms;
    bool negative = Take('-');
    do {
      Dim::Term term{1, {}};
      TRY_ASSIGN(const Dim atoms, ParseTerm(negative, depth, term));
      if (atoms.is_one()) {
        terms.push_back(std::move(term));
      } else {
        with_atoms = with_atoms + Dim::FromTerms({std::move(term)}) * atoms;
      }
      negative = !Take('+');
    } while (!negative || Take('-'));
    return Dim::FromTerms(std::move(terms)) + with_atoms;
  }

  /// Numbers and symbols into `term`; gives the product of the others.
  Result<Dim> ParseTerm(bool negative, uint32_t depth, Dim::Term& term) {
    Dim atoms(1);
    Dim number(negative ? -1 : 1);
    do {
      SkipSpaces();
      if (const AtomFunction function = TakeFunction()) {
        TRY_ASSIGN(const Dim atom, ParseArguments(function, depth));
        if (atoms.terms().size() * atom.terms().size() > kProductTermsMax) return Fail("a shorter product");
        atoms = atoms * atom;
        continue;
      }
      const bool symbol = Take('s');
      uint64_t value = 0;
      const char* begin = text_.data() + at_;
      const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
      if (code != std::errc()) return Fail(symbol ? "a symbol number" : "a number or symbol");
      at_ += static_cast<size_t>(end - begin);
      if (symbol) {
        if (value >= 0xFFFF) return Fail("a symbol number up to 65534");
        term.factors.emplace_back(static_cast<uint16_t>(value));
      } else {
        // 2^63 is a magnitude only below zero.
        if (value > (1ull << 63) - (negative ? 0 : 1)) return Fail("a number of 64 bits");
        number = number * Dim(static_cast<int64_t>(value));
      }
    } while (Take('*'));
    term.coef = number.const_value();
    return atoms;
  }

  Result<Dim> ParseArguments(AtomFunction function, uint32_t depth) {
    if (depth == Atom::kDepthMax) return Fail("fewer parentheses within each other");
    TRY_ASSIGN(const Dim a, ParseSum(depth + 1));
    if (!Take(',')) return Fail("','");
    TRY_ASSIGN(const Dim b, ParseSum(depth + 1));
    if (!Take(')')) return Fail("')'");
    Result<Dim> made = function(a, b);
    if (!made) return Fail("another size: " + made.error().message() + ",");
    return made;
  }

  /// A word and what opens its arguments.
  AtomFunction TakeFunction() {
    size_t end = at_;
    while (end < text_.size() && std::islower(static_cast<unsigned char>(text_[end])) != 0) ++end;
    const AtomFunction function = AtomFunctionOf(text_.substr(at_, end - at_));
    if (function == nullptr || end == text_.size() || text_[end] != '(') return nullptr;
    at_ = end + 1;
    return function;
  }
  bool Take(char c) {
    SkipSpaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void SkipSpaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  Error Fail(const std::string& expected) const {
    return Error(Code::kInvalid,
                 "size '" + std::string(text_) + "': expected " + expected + " at column " + std::to_string(at_ + 1));
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string Dim::ToText() const {
  if (terms_.empty()) return "0";
  std::string text;
  for (const Term& term : terms_) {
    if (text.empty()) {
      if (term.coef < 0) text += '-';
    } else {
      text += term.coef < 0 ? " - " : " + ";
    }
    text += TermText(term);
  }
  return text;
}

Result<Dim> Dim::Parse(std::string_view text) { return DimParser(text).Run(); }

}  // namespace ingot::guards
