// SPDX-License-Identifier: Apache-2.0
#include "guards/dim.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace ingot::guards {
namespace {

// Polynomials meet wrap-around only in graphs that are refused later; unsigned keeps it defined.
int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/// a / b where nothing remains; b is not 0.
std::optional<int64_t> DivideWhole(int64_t a, int64_t b) {
  // The smallest integer by -1 traps in hardware; it wraps like every other operation here.
  if (b == -1) return WrapMul(a, -1);
  if (a % b != 0) return std::nullopt;
  return a / b;
}

// Terms of higher degree first, then by symbol; the constant comes last.
bool ComesBefore(const Dim::Term& a, const Dim::Term& b) {
  if (a.symbols.size() != b.symbols.size()) return a.symbols.size() > b.symbols.size();
  return a.symbols < b.symbols;
}

std::string TermText(const Dim::Term& term, uint64_t magnitude) {
  std::string text;
  if (term.symbols.empty() || magnitude != 1) text = std::to_string(magnitude);
  for (uint16_t symbol : term.symbols) {
    if (!text.empty()) text += '*';
    text += 's' + std::to_string(symbol);
  }
  return text;
}

uint64_t Magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Dim> Run() {
    std::vector<Dim::Term> terms;
    bool negative = Take('-');
    while (true) {
      TRY_ASSIGN(Dim::Term term, ParseTerm(negative));
      terms.push_back(std::move(term));
      SkipSpaces();
      if (at_ == text_.size()) return Dim::FromTerms(std::move(terms));
      if (Take('+')) {
        negative = false;
      } else if (Take('-')) {
        negative = true;
      } else {
        return Fail("'+' or '-'");
      }
    }
  }

 private:
  Result<Dim::Term> ParseTerm(bool negative) {
    Dim::Term term{negative ? -1 : 1, {}};
    do {
      SkipSpaces();
      const bool symbol = Take('s');
      uint64_t number = 0;
      const char* begin = text_.data() + at_;
      const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), number);
      if (code != std::errc()) return Fail(symbol ? "a symbol number" : "a number or symbol");
      at_ += end - begin;
      if (symbol) {
        if (number >= 0xFFFF) return Fail("a symbol number up to 65534");
        term.symbols.push_back(static_cast<uint16_t>(number));
      } else {
        // 2^63 is a magnitude only below zero.
        const uint64_t limit = (1ull << 63) - (negative ? 0 : 1);
        if (number > limit) return Fail("a number of 64 bits");
        term.coef = WrapMul(term.coef, static_cast<int64_t>(number));
      }
      SkipSpaces();
    } while (Take('*'));
    return term;
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
  Error Fail(const char* expected) const {
    return Error(Code::kInvalid,
                 "size '" + std::string(text_) + "': expected " + expected + " at column " + std::to_string(at_ + 1));
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Dim::Dim(int64_t value) {
  if (value != 0) terms_.push_back({value, {}});
}

Dim Dim::Symbol(uint16_t index) { return FromTerms({{1, {index}}}); }

Dim Dim::FromTerms(std::vector<Term> terms) {
  for (Term& term : terms) std::sort(term.symbols.begin(), term.symbols.end());
  std::sort(terms.begin(), terms.end(), ComesBefore);
  Dim dim;
  for (Term& term : terms) {
    if (!dim.terms_.empty() && dim.terms_.back().symbols == term.symbols) {
      dim.terms_.back().coef = WrapAdd(dim.terms_.back().coef, term.coef);
    } else {
      if (!dim.terms_.empty() && dim.terms_.back().coef == 0) dim.terms_.pop_back();
      dim.terms_.push_back(std::move(term));
    }
  }
  if (!dim.terms_.empty() && dim.terms_.back().coef == 0) dim.terms_.pop_back();
  return dim;
}

int64_t Dim::Eval(std::span<const int64_t> symbols) const {
  int64_t sum = 0;
  for (const Term& term : terms_) {
    int64_t product = term.coef;
    for (uint16_t symbol : term.symbols) {
      product = WrapMul(product, symbol < symbols.size() ? symbols[symbol] : 0);
    }
    sum = WrapAdd(sum, product);
  }
  return sum;
}

Dim Dim::Substitute(std::span<const Dim> by) const {
  Dim sum;
  for (const Term& term : terms_) {
    Dim product(term.coef);
    for (uint16_t symbol : term.symbols) {
      product = product * (symbol < by.size() ? by[symbol] : Symbol(symbol));
    }
    sum = sum + product;
  }
  return sum;
}

uint16_t Dim::SymbolCount() const {
  uint16_t count = 0;
  for (const Term& term : terms_) {
    if (!term.symbols.empty()) count = std::max<uint16_t>(count, term.symbols.back() + 1);
  }
  return count;
}

std::optional<Dim> Dim::DivideExactly(const Dim& divisor) const {
  if (divisor.is_zero()) return std::nullopt;
  // Long division by the leading term; each step removes the leading term of the rest.
  const Term& lead = divisor.terms_.front();
  Dim rest = *this;
  Dim quotient;
  for (size_t step = 0; !rest.is_zero(); ++step) {
    const Term& top = rest.terms_.front();
    const std::optional<int64_t> coef = DivideWhole(top.coef, lead.coef);
    if (step > 64 || !coef) return std::nullopt;
    if (!std::includes(top.symbols.begin(), top.symbols.end(), lead.symbols.begin(), lead.symbols.end())) {
      return std::nullopt;
    }
    Term term{*coef, {}};
    std::set_difference(top.symbols.begin(), top.symbols.end(), lead.symbols.begin(), lead.symbols.end(),
                        std::back_inserter(term.symbols));
    const Dim factor = FromTerms({std::move(term)});
    quotient = quotient + factor;
    rest = rest - factor * divisor;
  }
  return quotient;
}

Dim Dim::operator+(const Dim& other) const {
  if (is_const() && other.is_const()) return Dim(WrapAdd(const_value(), other.const_value()));
  std::vector<Term> terms = terms_;
  terms.insert(terms.end(), other.terms_.begin(), other.terms_.end());
  return FromTerms(std::move(terms));
}

Dim Dim::operator-(const Dim& other) const { return *this + other * Dim(-1); }

Dim Dim::operator*(const Dim& other) const {
  if (is_const() && other.is_const()) return Dim(WrapMul(const_value(), other.const_value()));
  std::vector<Term> terms;
  for (const Term& a : terms_) {
    for (const Term& b : other.terms_) {
      Term product{WrapMul(a.coef, b.coef), a.symbols};
      product.symbols.insert(product.symbols.end(), b.symbols.begin(), b.symbols.end());
      terms.push_back(std::move(product));
    }
  }
  return FromTerms(std::move(terms));
}

std::string Dim::ToText() const {
  if (terms_.empty()) return "0";
  std::string text;
  for (const Term& term : terms_) {
    if (text.empty()) {
      if (term.coef < 0) text += '-';
    } else {
      text += term.coef < 0 ? " - " : " + ";
    }
    text += TermText(term, Magnitude(term.coef));
  }
  return text;
}

Result<Dim> Dim::Parse(std::string_view text) { return Parser(text).Run(); }

Dim Product(std::span<const Dim> dims) {
  Dim product(1);
  for (const Dim& dim : dims) product = product * dim;
  return product;
}

Dims ContiguousStrides(std::span<const Dim> sizes) {
  Dims strides(sizes.size());
  Dim stride(1);
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    if (!sizes[i].is_zero()) stride = stride * sizes[i];
  }
  return strides;
}

Dims NestedStrides(std::span<const Dim> sizes, std::span<const Dim> like_sizes, std::span<const Dim> like_strides) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, {}, [&](size_t i) { return std::pair(like_strides[i].const_value(), like_sizes[i].const_value()); });
  Dims strides(sizes.size());
  Dim stride(1);
  for (const size_t i : order) {
    strides[i] = stride;
    stride = stride * sizes[i];
  }
  return strides;
}

}  // namespace ingot::guards
