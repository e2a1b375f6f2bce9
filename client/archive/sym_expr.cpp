// SPDX-License-Identifier: Apache-2.0
#include "client/archive/sym_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace ingot::client {
namespace {

using guards::Dim;

constexpr int kExprDepthMax = 32;
constexpr size_t kTextMax = 4096;
/// Bounds on what a product may unfold into (guards/dim.h itself has none).
constexpr size_t kTermsMax = 64;
constexpr size_t kDegreeMax = 8;
constexpr int64_t kNumberMax = int64_t{1} << 40;

/// torch's functions of sizes, which are sympy's or its own (torch.utils._sympy.functions); those of more arguments
/// than two take them one after the other.
constexpr std::pair<std::string_view, guards::AtomFunction> kFunctions[] = {
    {"FloorDiv(", Dim::FloorDiv}, {"CleanDiv(", Dim::FloorDiv}, {"Mod(", Dim::Mod},
    {"PythonMod(", Dim::Mod},     {"Max(", Dim::Max},           {"Min(", Dim::Min},
};

class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> names) : whole_(text), rest_(text), names_(names) {}

  Result<Dim> ParseWhole() {
    TRY_ASSIGN(Dim dim, Parse(0));
    if (!rest_.empty()) return Corrupt();
    return dim;
  }

 private:
  Error Corrupt() const { return Error(Code::kCorrupt, fmt::format("size '{}' at '{}'", whole_, rest_.substr(0, 40))); }
  Error Unsupported(std::string_view what) const {
    return Error(Code::kUnsupported, fmt::format("size '{}' {}", whole_, what));
  }
  bool Take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  Result<Dim> Parse(int depth) {
    if (depth > kExprDepthMax || whole_.size() > kTextMax) return Unsupported("is too long");
    if (Take("Integer(")) return ParseInteger();
    if (Take("Symbol('")) return ParseSymbol();
    if (Take("Add(")) return Fold(depth, [](const Dim& a, const Dim& b) { return a + b; });
    if (Take("Mul(")) return Fold(depth, [](const Dim& a, const Dim& b) { return a * b; });
    if (Take("Pow(")) return ParsePower(depth);
    for (const auto& [word, function] : kFunctions) {
      if (Take(word)) return ParseFunction(depth, function);
    }
    const size_t name = rest_.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.");
    if (name != 0 && name != rest_.npos && rest_[name] == '(') {
      return Unsupported(fmt::format("uses {}, which sizes do not have", rest_.substr(0, name)));
    }
    return Corrupt();
  }

  Result<Dim> ParseInteger() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value > kNumberMax || value < -kNumberMax) return Corrupt();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    if (!Take(")")) return Corrupt();
    return Dim(value);
  }

  /// The assumptions behind a name ("positive=True") follow from its range.
  Result<Dim> ParseSymbol() {
    const size_t quote = rest_.find('\'');
    const size_t close = rest_.find(')', quote);
    if (quote == rest_.npos || close == rest_.npos) return Corrupt();
    const std::string_view name = rest_.substr(0, quote);
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) return Unsupported(fmt::format("depends on '{}', which is no size of an input", name));
    rest_.remove_prefix(close + 1);
    return Dim::Symbol(static_cast<uint16_t>(at - names_.begin()));
  }

  Result<Dim> Check(Dim dim) const {
    bool small = dim.terms().size() <= kTermsMax;
    for (const Dim::Term& term : dim.terms()) {
      small = small && term.factors.size() <= kDegreeMax && term.coef <= kNumberMax && term.coef >= -kNumberMax;
    }
    if (!small) return Unsupported("is too large");
    return dim;
  }

  template <typename Fn>
  Result<Dim> Fold(int depth, Fn fn) {
    TRY_ASSIGN(Dim all, Parse(depth + 1));
    while (Take(", ")) {
      TRY_ASSIGN(const Dim next, Parse(depth + 1));
      TRY_ASSIGN(all, Check(fn(all, next)));
    }
    if (!Take(")")) return Corrupt();
    return all;
  }

  Result<Dim> ParseFunction(int depth, guards::AtomFunction function) {
    TRY_ASSIGN(Dim all, Parse(depth + 1));
    while (Take(", ")) {
      TRY_ASSIGN(const Dim next, Parse(depth + 1));
      Result<Dim> made = function(all, next);
      if (!made) return Unsupported(made.error().message());
      TRY_ASSIGN(all, Check(*std::move(made)));
    }
    if (!Take(")")) return Corrupt();
    return all;
  }

  Result<Dim> ParsePower(int depth) {
    TRY_ASSIGN(const Dim base, Parse(depth + 1));
    if (!Take(", ")) return Corrupt();
    TRY_ASSIGN(const Dim power, Parse(depth + 1));
    if (!Take(")")) return Corrupt();
    if (!power.is_const() || power.const_value() < 0 || power.const_value() > static_cast<int64_t>(kDegreeMax)) {
      return Unsupported("has a power that is no small number");
    }
    Dim all = 1;
    for (int64_t i = 0; i < power.const_value(); ++i) {
      TRY_ASSIGN(all, Check(all * base));
    }
    return all;
  }

  std::string_view whole_;
  std::string_view rest_;
  std::span<const std::string> names_;
};

}  // namespace

Result<guards::Dim> ParseSymExpr(std::string_view text, std::span<const std::string> names) {
  return Parser(text, names).ParseWhole();
}

}  // namespace ingot::client
