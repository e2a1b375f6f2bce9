// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "guards/dim.h"

namespace ingot::compiler {

/// Reads the tokens of IR text, skipping blanks and `#` comments in front of each. Total: any
/// bytes give a token or kInvalid with line and column. Keeps a view of the text.
class Scanner {
 public:
  static constexpr uint16_t kSymbolsMax = 1024;
  static constexpr size_t kDimTermsMax = 64;
  static constexpr size_t kDimDegreeMax = 8;

  explicit Scanner(std::string_view text) : text_(text) {}

  /// Offset of the next token.
  size_t Here();
  bool AtEnd() { return Here() == text_.size(); }
  /// Next character without taking it; 0 at the end.
  char Peek();
  /// Takes `c` if it comes next.
  bool Take(char c);
  Status Expect(char c);
  /// Takes a whole word if it comes next.
  bool TakeWord(std::string_view word);
  Status ExpectWord(std::string_view word);

  /// Letter or `_`, then letters, digits and `_`; with dots between if `dotted`.
  Result<std::string> Word(const char* what, bool dotted);
  /// A value label after `%`: a word or a number.
  Result<std::string> Label();
  /// Text between double quotes with \" \\ and \xNN.
  Result<std::string> Quoted();
  /// Bytes written as hex digits between double quotes.
  Result<std::string> HexBytes();
  Result<uint32_t> Unsigned(const char* what, uint32_t max);
  /// A polynomial, "4*s0*s1 + 128", "2*floordiv(s0, 2)".
  Result<guards::Dim> ReadDim();
  /// A polynomial, or a number with point or exponent, inf or nan.
  Result<std::variant<guards::Dim, double>> ReadDimOrDouble();

  /// "line:column: expected <what>, found <what is there>".
  Error Expected(const std::string& what);
  /// "line:column: <message>" for an offset of the text.
  Error FailAt(size_t offset, const std::string& message) const;

 private:
  std::string_view WordAhead();
  bool DoubleAhead();
  Result<double> ReadDouble();
  /// Numbers and symbols into `term`; gives the product of what functions gave.
  Result<guards::Dim> ReadTerm(bool negative, guards::Dim::Term& term);
  Result<guards::Dim> ReadArguments(guards::AtomFunction function);

  std::string_view text_;
  size_t at_ = 0;
  uint32_t depth_ = 0;  ///< of functions within each other
};

}  // namespace ingot::compiler
