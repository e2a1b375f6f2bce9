// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/positions.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "compiler/ops/infer.h"
#include "compiler/ops/op_table.h"

namespace ingot::compiler {
namespace {

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

/// A position over symbols, counted from the front; on which side of 0 it lay is noted.
Dim Front(const Dim& position, const Dim& size, Sizes& sizes) {
  if (position == Dim(INT64_MAX)) return size;
  if (sizes.Seen(position) >= 0) {
    sizes.AtLeastZero(position);
    return position;
  }
  sizes.AtLeastZero(Dim(-1) - position);
  return position + size;
}

Dim Clamped(const Dim& position, const Dim& low, const Dim& high, Sizes& sizes) {
  if (position == low || position == high) return position;
  const int64_t at = sizes.Seen(position);
  if (at < sizes.Seen(low)) {
    sizes.AtLeastZero(low - position - Dim(1));
    return low;
  }
  if (at > sizes.Seen(high)) {
    sizes.AtLeastZero(position - high - Dim(1));
    return high;
  }
  sizes.AtLeastZero(position - low);
  sizes.AtLeastZero(high - position);
  return position;
}

}  // namespace

const Positions* PositionsOf(std::string_view op) {
  static const OpTable<Positions> positions = [] {
    OpTable<Positions> table;
#define POSITIONS(...) \
  , Positions { __VA_ARGS__ }
#include "compiler/ops/ops.def"
    return table;
  }();
  return positions.Of(op);
}

Status CountFromFront(std::string_view op, const Recording& recording, std::vector<Arg>& args) {
  const Positions* rule = PositionsOf(op);
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

Status CountFromFront(const Positions& places, const Dim& size, const RecordedInt& recorded, std::vector<Arg>& args,
                      Sizes& sizes) {
  if (const size_t at = places.index_arg + places.start_arg; at != 0) {
    if (at >= args.size()) return {};
    TRY_ASSIGN(const std::optional<Dim> raw, recorded(at));
    if (!raw) return {};
    const Dim from_front = Front(*raw, size, sizes);
    const Dim* length = places.start_arg != 0 && at + 1 < args.size() ? std::get_if<Dim>(&args[at + 1]) : nullptr;
    const Dim taken = places.start_arg == 0 ? Dim(1) : length ? *length : Dim(0);
    if (!sizes.AtLeastZero(from_front) || !sizes.AtLeastZero(size - from_front - taken))
      return Error(Code::kCorrupt, "recording: a position outside of its dim");
    args[at] = from_front;
    return {};
  }
  const size_t at = places.slice_arg;
  if (at + 1 >= args.size()) return {};
  TRY_ASSIGN(const std::optional<Dim> start, recorded(at));
  TRY_ASSIGN(const std::optional<Dim> end, recorded(at + 1));
  const Dim first = Clamped(start ? Front(*start, size, sizes) : Dim(0), Dim(0), size, sizes);
  args[at] = first;
  args[at + 1] = Clamped(end ? Front(*end, size, sizes) : size, first, size, sizes);
  return {};
}

}  // namespace ingot::compiler
