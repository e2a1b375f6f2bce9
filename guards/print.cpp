// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <utility>

#include "guards/guard_set.h"

namespace ingot::guards {
namespace {

using Terms = std::vector<Dim::Term>;

bool IsWord(std::string_view name) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  return std::ranges::all_of(name, is_word);
}

/// A name that reads as something else is written in quotes.
bool NeedsQuotes(std::string_view name) {
  if (!IsWord(name) || name == "and" || name == "or" || name == "apart") return true;
  return name[0] == 's' && name.size() > 1 &&
         std::ranges::all_of(name.substr(1), [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

std::string NameText(std::string_view name) {
  if (!NeedsQuotes(name)) return std::string(name);
  std::string text = "'";
  for (const char c : name) {
    if (c == '\'' || c == '\\') text += '\\';
    text += c;
  }
  return text + "'";
}

std::string PropertyText(const Property& property, std::span<const std::string> inputs) {
  const std::string name = NameText(inputs[property.input]);
  const std::string dim = "(" + std::to_string(property.dim) + ")";
  switch (property.kind) {
    case Property::Kind::kRank: return name + ".rank";
    case Property::Kind::kOffset: return name + ".offset";
    case Property::Kind::kSize: return name + ".size" + dim;
    case Property::Kind::kStride: return name + ".stride" + dim;
  }
  return name;
}

class Printer {
 public:
  explicit Printer(const GuardSet& set) : set_(set) {}

  std::string Text(const Guard& guard) const {
    const auto input = [&](uint16_t i) { return NameText(set_.inputs()[i]); };
    switch (guard.kind) {
      case Guard::Kind::kDType: return input(guard.input) + ".dtype == " + std::string(NameOf(guard.dtype));
      case Guard::Kind::kDevice: return input(guard.input) + ".device == " + guard.text;
      case Guard::Kind::kApart: return "apart(" + input(guard.input) + ", " + input(guard.other) + ")";
      case Guard::Kind::kScalar: return NameText(set_.scalars()[guard.input]) + " == " + guard.text;
      case Guard::Kind::kEqual: return Compared(guard.value, " == ", " == ");
      case Guard::Kind::kNotEqual: return Compared(guard.value, " != ", " != ");
      case Guard::Kind::kAtLeast: return Compared(guard.value, " >= ", " <= ");
      case Guard::Kind::kModulo: return Modulo(guard, " == ");
      case Guard::Kind::kNotModulo: return Modulo(guard, " != ");
    }
    return "";
  }

 private:
  std::string Variable(uint16_t variable) const {
    if (variable < Guard::kFirstProperty) return "s" + std::to_string(variable);
    return PropertyText(set_.properties()[variable - Guard::kFirstProperty], set_.inputs());
  }

  std::string FactorText(const Factor& factor) const {
    if (factor.is_symbol()) return Variable(factor.symbol());
    const auto text = [this](const Dim& dim) { return Sum(Sorted(dim.terms())); };
    return std::string(NameOf(factor.atom().kind)) + "(" + text(factor.atom().a) + ", " + text(factor.atom().b) + ")";
  }

  /// Numbers of properties depend on who asked first; names do not.
  bool FactorBefore(const Factor& a, const Factor& b) const {
    if (!a.is_symbol() && !b.is_symbol()) return FactorText(a) < FactorText(b);
    const bool properties =
        a.is_symbol() && b.is_symbol() && a.symbol() >= Guard::kFirstProperty && b.symbol() >= Guard::kFirstProperty;
    return properties ? Variable(a.symbol()) < Variable(b.symbol()) : a < b;
  }
  bool TermBefore(const Dim::Term& a, const Dim::Term& b) const {
    if (a.factors.size() != b.factors.size()) return a.factors.size() > b.factors.size();
    return std::ranges::lexicographical_compare(
        a.factors, b.factors, [this](const Factor& x, const Factor& y) { return FactorBefore(x, y); });
  }
  Terms Sorted(Terms terms) const {
    for (Dim::Term& term : terms) {
      std::ranges::sort(term.factors, [this](const Factor& x, const Factor& y) { return FactorBefore(x, y); });
    }
    std::ranges::sort(terms, [this](const Dim::Term& x, const Dim::Term& y) { return TermBefore(x, y); });
    return terms;
  }

  std::string Sum(const Terms& terms) const {
    if (terms.empty()) return "0";
    std::string text;
    for (const Dim::Term& term : terms) {
      if (text.empty()) {
        if (term.coef < 0) text += '-';
      } else {
        text += term.coef < 0 ? " - " : " + ";
      }
      const uint64_t magnitude = static_cast<uint64_t>(term.coef < 0 ? -term.coef : term.coef);
      std::string product = term.factors.empty() || magnitude != 1 ? std::to_string(magnitude) : "";
      for (const Factor& factor : term.factors) product += (product.empty() ? "" : "*") + FactorText(factor);
      text += product;
    }
    return text;
  }

  /// value relation 0, with one variable alone on the left where there is one.
  std::string Compared(const Dim& value, const char* relation, const char* turned) const {
    const Terms terms = Sorted(value.terms());
    const Dim::Term* alone = value.is_const() ? nullptr : &terms.front();
    for (const Dim::Term& term : terms) {
      // The last one: x.size(0) == s0 and s1 == 2*s0 read better than the other way round.
      if (term.factors.size() == 1 && (term.coef == 1 || term.coef == -1)) alone = &term;
    }
    // The left side keeps its sign, the right one changes it; a negative left side turns the relation.
    const bool turn = alone != nullptr && alone->coef < 0;
    Terms left, right;
    for (const Dim::Term& term : terms) {
      const bool is_left = alone == nullptr || &term == alone;
      (is_left ? left : right).push_back({is_left == turn ? -term.coef : term.coef, term.factors});
    }
    return Sum(left) + (turn ? turned : relation) + Sum(right);
  }

  std::string Modulo(const Guard& guard, const char* relation) const {
    std::string value = Sum(Sorted(guard.value.terms()));
    if (guard.value.terms().size() > 1) value = "(" + value + ")";
    return value + " % " + std::to_string(guard.modulus) + relation + std::to_string(guard.remainder);
  }

  const GuardSet& set_;
};

}  // namespace

std::string GuardSet::ToText(const Guard& guard) const { return Printer(*this).Text(guard); }

std::string GuardSet::ToText() const {
  std::string text;
  for (const Guard& guard : guards_) text += (text.empty() ? "" : " and ") + ToText(guard);
  return text;
}

}  // namespace ingot::guards
