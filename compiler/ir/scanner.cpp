// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/scanner.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

namespace ingot::compiler {
namespace {

using guards::Dim;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsWordChar(char c) { return IsLetter(c) || IsDigit(c); }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

size_t Scanner::Here() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      break;
    }
  }
  return at_;
}

char Scanner::Peek() { return AtEnd() ? '\0' : text_[at_]; }

bool Scanner::Take(char c) {
  if (AtEnd() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Status Scanner::Expect(char c) {
  if (!Take(c)) return Expected(fmt::format("'{}'", c));
  return {};
}

std::string_view Scanner::WordAhead() {
  size_t end = Here();
  if (end == text_.size() || !IsLetter(text_[end])) return {};
  while (end < text_.size() && IsWordChar(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

bool Scanner::TakeWord(std::string_view word) {
  if (WordAhead() != word) return false;
  at_ += word.size();
  return true;
}

Status Scanner::ExpectWord(std::string_view word) {
  if (!TakeWord(word)) return Expected(fmt::format("'{}'", word));
  return {};
}

Result<std::string> Scanner::Word(const char* what, bool dotted) {
  std::string word(WordAhead());
  if (word.empty()) return Expected(what);
  at_ += word.size();
  while (dotted && at_ + 1 < text_.size() && text_[at_] == '.' && IsWordChar(text_[at_ + 1])) {
    const size_t begin = at_++;
    while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
    word += text_.substr(begin, at_ - begin);
  }
  return word;
}

Result<std::string> Scanner::Label() {
  TRY(Expect('%'));
  size_t end = at_;
  while (end < text_.size() && IsWordChar(text_[end])) ++end;
  if (end == at_) return Expected("a value name right after '%'");
  std::string label(text_.substr(at_, end - at_));
  at_ = end;
  return label;
}

Result<std::string> Scanner::Quoted() {
  if (Peek() != '"') return Expected("a string in double quotes");
  const size_t begin = at_++;
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (text_[at_] != '\\') {
      out += text_[at_++];
      continue;
    }
    const std::string_view escape = text_.substr(at_, 4);
    if (escape.size() >= 2 && (escape[1] == '"' || escape[1] == '\\')) {
      out += escape[1];
      at_ += 2;
    } else if (escape.size() == 4 && escape[1] == 'x' && HexDigit(escape[2]) >= 0 && HexDigit(escape[3]) >= 0) {
      out += static_cast<char>(HexDigit(escape[2]) * 16 + HexDigit(escape[3]));
      at_ += 4;
    } else {
      return FailAt(at_, "unknown escape; use \\\", \\\\ or \\xNN");
    }
  }
  if (at_ == text_.size()) return FailAt(begin, "string without closing quote");
  ++at_;
  return out;
}

Result<std::string> Scanner::HexBytes() {
  if (Peek() != '"') return Expected("hex digits in double quotes");
  const size_t begin = at_ + 1;
  const size_t end = text_.find('"', begin);
  if (end == std::string_view::npos) return FailAt(at_, "string without closing quote");
  if ((end - begin) % 2 != 0) return FailAt(begin, "odd number of hex digits");
  std::string out((end - begin) / 2, '\0');
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = HexDigit(text_[begin + 2 * i]), low = HexDigit(text_[begin + 2 * i + 1]);
    if (high < 0 || low < 0) return FailAt(begin + 2 * i, "expected hex digits 0-9 a-f");
    out[i] = static_cast<char>(high * 16 + low);
  }
  at_ = end + 1;
  return out;
}

Result<uint32_t> Scanner::Unsigned(const char* what, uint32_t max) {
  Here();
  uint32_t value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (code != std::errc() || value > max) {
    return Expected(fmt::format("{} (a number up to {})", what, max));
  }
  at_ += end - begin;
  return value;
}

Result<Dim> Scanner::ReadTerm(bool negative, Dim::Term& term) {
  term.coef = negative ? -1 : 1;
  Dim product(1);
  do {
    const size_t begin = Here();
    const std::string_view word = WordAhead();
    if (const guards::AtomFunction function = guards::AtomFunctionOf(word)) {
      at_ += word.size();
      TRY_ASSIGN(const Dim atom, ReadArguments(function));
      if (product.terms().size() * atom.terms().size() > kDimTermsMax) return FailAt(begin, "size of over 64 terms");
      product = product * atom;
      continue;
    }
    const bool symbol = word.size() > 1 && word[0] == 's';
    at_ += symbol ? 1 : 0;
    uint64_t number = 0;
    const char* first = text_.data() + at_;
    const auto [end, code] = std::from_chars(first, text_.data() + text_.size(), number);
    if (code != std::errc()) {
      at_ = begin;
      return Expected("a size (number, symbol or polynomial)");
    }
    at_ += end - first;
    if (at_ < text_.size() && IsWordChar(text_[at_])) return FailAt(begin, "malformed size");
    if (symbol) {
      if (number >= kSymbolsMax) return FailAt(begin, "symbol number over 1023");
      if (term.factors.size() == kDimDegreeMax) return FailAt(begin, "product of over 8 symbols");
      term.factors.emplace_back(static_cast<uint16_t>(number));
    } else {
      const uint64_t limit = (1ull << 63) - (negative ? 0 : 1);
      // 2^63 exists only below zero, where the sign is already in the coefficient.
      if (number > limit || (number == 1ull << 63 && term.coef != -1)) {
        return FailAt(begin, "number over 64 bits");
      }
      if (number == 1ull << 63) {
        term.coef = std::numeric_limits<int64_t>::min();
      } else if (__builtin_mul_overflow(term.coef, static_cast<int64_t>(number), &term.coef)) {
        return FailAt(begin, "number over 64 bits");
      }
    }
  } while (Take('*'));
  return product;
}

Result<Dim> Scanner::ReadArguments(guards::AtomFunction function) {
  const size_t begin = Here();
  if (depth_ == guards::Atom::kDepthMax) return FailAt(begin, "size of over 16 functions within each other");
  ++depth_;
  TRY(Expect('('));
  TRY_ASSIGN(const Dim a, ReadDim());
  TRY(Expect(','));
  TRY_ASSIGN(const Dim b, ReadDim());
  TRY(Expect(')'));
  --depth_;
  Result<Dim> made = function(a, b);
  if (!made) return FailAt(begin, made.error().message());
  return made;
}

Result<Dim> Scanner::ReadDim() {
  const size_t begin = Here();
  std::map<std::vector<guards::Factor>, int64_t> terms;
  const auto add = [&](const Dim::Term& term) {
    int64_t& coef = terms[term.factors];
    return !__builtin_add_overflow(coef, term.coef, &coef);
  };
  bool negative = Take('-');
  while (true) {
    Dim::Term term;
    TRY_ASSIGN(const Dim atoms, ReadTerm(negative, term));
    std::sort(term.factors.begin(), term.factors.end());
    if (atoms.is_one()) {
      if (!add(term)) return FailAt(begin, "size over 64 bits");
    } else {
      const Dim product = Dim::FromTerms({std::move(term)}) * atoms;
      for (const Dim::Term& part : product.terms()) {
        if (part.factors.size() > kDimDegreeMax) return FailAt(begin, "product of over 8 symbols");
        if (!add(part)) return FailAt(begin, "size over 64 bits");
      }
    }
    if (terms.size() > kDimTermsMax) return FailAt(begin, "size of over 64 terms");
    if (Take('+')) {
      // A negative coefficient may also be written "+ -3".
      negative = Take('-');
    } else if (Take('-')) {
      negative = true;
    } else {
      break;
    }
  }
  std::vector<Dim::Term> list;
  for (auto& [factors, coef] : terms) list.push_back({coef, factors});
  return Dim::FromTerms(std::move(list));
}

bool Scanner::DoubleAhead() {
  size_t i = Here();
  if (i < text_.size() && text_[i] == '-') ++i;
  const std::string_view rest = text_.substr(i);
  if (rest.starts_with("inf") || rest.starts_with("nan")) {
    return rest.size() == 3 || !IsWordChar(rest[3]);
  }
  size_t digits = 0;
  while (digits < rest.size() && IsDigit(rest[digits])) ++digits;
  return digits > 0 && digits < rest.size() && (rest[digits] == '.' || rest[digits] == 'e' || rest[digits] == 'E');
}

Result<double> Scanner::ReadDouble() {
  double value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (code != std::errc()) return Expected("a number that a double can hold");
  at_ += end - begin;
  // All NaNs are one: their payload means nothing to any operator.
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

Result<std::variant<Dim, double>> Scanner::ReadDimOrDouble() {
  if (DoubleAhead()) {
    TRY_ASSIGN(const double value, ReadDouble());
    return std::variant<Dim, double>(value);
  }
  TRY_ASSIGN(Dim dim, ReadDim());
  return std::variant<Dim, double>(std::move(dim));
}

Error Scanner::Expected(const std::string& what) {
  const size_t at = Here();
  if (at == text_.size()) return FailAt(at, "expected " + what + ", found the end of the text");
  size_t end = at;
  while (end < text_.size() && end < at + 24 && static_cast<unsigned char>(text_[end]) > 0x20 &&
         static_cast<unsigned char>(text_[end]) < 0x7f) {
    ++end;
  }
  const std::string found = end == at ? fmt::format("byte {:#04x}", (unsigned char)text_[at])
                                      : "'" + std::string(text_.substr(at, end - at)) + "'";
  return FailAt(at, "expected " + what + ", found " + found);
}

Error Scanner::FailAt(size_t offset, const std::string& message) const {
  const std::string_view before = text_.substr(0, offset);
  const size_t line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_begin = before.rfind('\n');
  const size_t column = line_begin == std::string_view::npos ? offset + 1 : offset - line_begin;
  return Error(Code::kInvalid, fmt::format("{}:{}: {}", line, column, message));
}

}  // namespace ingot::compiler
