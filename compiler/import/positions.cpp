// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/positions.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "compiler/ops/infer.h"

namespace ingot::compiler {
namespace {

constexpr Positions kRules[] = {
    {.op = "aten.select.int", .dim_arg = 1, .index_arg = 2},
    {.op = "aten.select_copy.int", .dim_arg = 1, .index_arg = 2},
    {.op = "aten.select_scatter", .dim_arg = 2, .index_arg = 3},
    {.op = "aten.narrow", .dim_arg = 1, .start_arg = 2},
    {.op = "aten.narrow_copy", .dim_arg = 1, .start_arg = 2},
    {.op = "aten.slice.Tensor", .dim_arg = 1, .slice_arg = 2},
    {.op = "aten.slice_copy.Tensor", .dim_arg = 1, .slice_arg = 2},
    {.op = "aten.slice_scatter", .dim_arg = 2, .slice_arg = 3},
};

std::optional<int64_t> IntAt(const std::vector<Arg>& args, size_t at) {
  const Dim* dim = at < args.size() ? std::get_if<Dim>(&args[at]) : nullptr;
  return dim == nullptr || !dim->is_const() ? std::nullopt : std::optional(dim->const_value());
}

bool IsAbsent(const std::vector<Arg>& args, size_t at) {
  return at >= args.size() || std::holds_alternative<None>(args[at]);
}

/// The lowest integer has no negative, and stands for no position either.
int64_t Wrapped(int64_t value, int64_t size) { return value < 0 ? value + size : value; }

Status CountOne(std::vector<Arg>& args, size_t at, int64_t size, int64_t last) {
  const std::optional<int64_t> value = IntAt(args, at);
  if (!value) return {};
  const int64_t position = Wrapped(*value, size);
  if (position < 0 || position > last) {
    return Error(Code::kCorrupt, fmt::format("position {} of a dim of {}", *value, size));
  }
  args[at] = Dim(position);
  return {};
}

void CountSlice(std::vector<Arg>& args, size_t at, int64_t size) {
  const auto bound = [&](size_t arg, int64_t lowest, int64_t otherwise) -> std::optional<int64_t> {
    if (IsAbsent(args, arg)) return otherwise;
    const std::optional<int64_t> value = IntAt(args, arg);
    if (!value) return std::nullopt;
    return std::clamp(Wrapped(*value, size), lowest, size);
  };
  const std::optional<int64_t> start = bound(at, 0, 0);
  const std::optional<int64_t> end = start ? bound(at + 1, *start, size) : std::nullopt;
  if (!end || (!IsAbsent(args, at + 2) && !IntAt(args, at + 2))) return;
  const Arg step = IsAbsent(args, at + 2) ? Arg(Dim(1)) : args[at + 2];
  args.resize(std::max(args.size(), at + 3), None{});
  args[at] = Dim(*start);
  args[at + 1] = Dim(*end);
  args[at + 2] = step;
}

}  // namespace

std::optional<Positions> PositionsOf(std::string_view op) {
  const auto rule = std::ranges::find(kRules, op, &Positions::op);
  return rule == std::end(kRules) ? std::nullopt : std::optional(*rule);
}

Status CountFromFront(std::string_view op, const Recording& recording, std::vector<Arg>& args) {
  const std::optional<Positions> rule = PositionsOf(op);
  const Ref* operand = !rule || args.empty() ? nullptr : std::get_if<Ref>(&args[0]);
  if (operand == nullptr) return {};
  const Dims& sizes = recording.meta(operand->id).type.sizes;
  const std::optional<int64_t> named = IsAbsent(args, rule->dim_arg) ? 0 : IntAt(args, rule->dim_arg);
  const std::optional<size_t> dim = named ? WrapDim(*named, sizes.size()) : std::nullopt;
  if (!dim || *dim >= sizes.size()) return {};
  const int64_t size = sizes[*dim].const_value();
  if (rule->index_arg != 0) return CountOne(args, rule->index_arg, size, size - 1);
  if (rule->start_arg != 0) return CountOne(args, rule->start_arg, size, size);
  CountSlice(args, rule->slice_arg, size);
  return {};
}

}  // namespace ingot::compiler
