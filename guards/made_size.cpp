// SPDX-License-Identifier: Apache-2.0
#include "guards/made_size.h"

#include "base/floored.h"

namespace ingot::guards {
namespace {

constexpr std::string_view kBegin = "=(", kMiddle = ") // (", kEnd = ")";

}  // namespace

std::optional<int64_t> MadeSize::Eval(std::span<const int64_t> symbols) const {
  const int64_t x = a.Eval(symbols), y = b.Eval(symbols);
  if (y < 1) return std::nullopt;
  return FloorDiv(x, y);
}

std::string MadeSizeText(const Dim& a, const Dim& b) {
  return std::string(kBegin) + a.ToText() + std::string(kMiddle) + b.ToText() + std::string(kEnd);
}

Result<MadeSize> ParseMadeSize(std::string_view name) {
  const size_t middle = name.find(kMiddle);
  if (!name.starts_with(kBegin) || middle == name.npos || !name.ends_with(kEnd) ||
      middle + kMiddle.size() + kEnd.size() > name.size()) {
    return Error(Code::kInvalid, "'" + std::string(name) + "' is no quotient of sizes, as =(s0 + 1) // (2) is");
  }
  const size_t after = middle + kMiddle.size();
  TRY_ASSIGN(Dim a, Dim::Parse(name.substr(kBegin.size(), middle - kBegin.size())));
  TRY_ASSIGN(Dim b, Dim::Parse(name.substr(after, name.size() - after - kEnd.size())));
  return MadeSize{std::move(a), std::move(b)};
}

}  // namespace ingot::guards
