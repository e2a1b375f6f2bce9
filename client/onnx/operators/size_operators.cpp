// SPDX-License-Identifier: Apache-2.0
// What makes sizes of tensors, and tensors of sizes.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "client/onnx/element_types.h"
#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {
namespace size_part {

Results Shape(NodeCall& n) {
  Ints sizes = n.SizesOf(n.In(0));
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto clamped = [rank](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamped(n.IntOf("start", 0)), end = clamped(n.IntOf("end", rank));
  Ints part(sizes.begin() + start, sizes.begin() + std::max(start, end));
  const auto count = static_cast<int64_t>(part.size());
  return KnownInts{std::move(part), {count}};
}

Results KnownShape(NodeCall& n) {
  KnownInts sizes{{}, {static_cast<int64_t>(n.ValueAt(0).known->sizes.size())}};
  for (const int64_t size : n.ValueAt(0).known->sizes) sizes.ints.emplace_back(size);
  return n.HasAttribute("start") || n.HasAttribute("end") ? Results{} : Results(std::move(sizes));
}

Results Size(NodeCall& n) {
  Int count = 1;
  for (const Int& size : n.SizesOf(n.In(0))) count = count * size;
  return KnownInts{{count}, {}};
}

Results KnownSize(NodeCall& n) { return KnownInts{{static_cast<int64_t>(n.ValueAt(0).known->ints.size())}, {}}; }

Results Constant(NodeCall& n) {
  if (const auto tensor = n.TensorOf("value")) return {*tensor};
  if (n.HasAttribute("value_float")) return {at::scalar_tensor(n.FloatOf("value_float"), at::kFloat)};
  if (n.HasAttribute("value_int")) return {at::scalar_tensor(n.IntOf("value_int"), at::kLong)};
  if (const auto list = n.FloatsOf("value_floats"); list && n.HasAttribute("value_floats")) {
    return {at::tensor(*list, at::kDouble).to(at::kFloat)};
  }
  if (const auto list = n.IntsOf("value_ints")) return {at::tensor(*list, at::kLong)};
  Refuse("a constant that is no tensor, number or list of numbers");
}

/// The one element of an attribute, and its type.
std::pair<c10::Scalar, at::ScalarType> Filling(NodeCall& n) {
  const Unnoted unnoted;
  const auto value = n.TensorOf("value");
  if (!value) return {0.0, at::kFloat};
  if (value->numel() != 1) Reject(fmt::format("'value' has {} elements instead of one", value->numel()));
  return {value->item(), value->scalar_type()};
}

Results ConstantOfShape(NodeCall& n) {
  const auto [value, dtype] = Filling(n);
  const Ints sizes = n.IntsAt(0);
  NodeCall::CheckCount(sizes);
  if (dtype == at::kBool) return {n.Call("aten::full", {sizes, value.toBool(), dtype})};
  if (at::isIntegralType(dtype, false)) return {n.Call("aten::full", {sizes, value.toLong(), dtype})};
  return {n.Call("aten::full", {sizes, value.toDouble(), dtype})};
}

/// A list of sizes that are all numbers, such as the -1s that an Expand is compared with.
Results KnownConstantOfShape(NodeCall& n) {
  const auto [value, dtype] = Filling(n);
  KnownInts made{{}, {}, dtype};
  int64_t count = 1;
  for (const Int& size : n.IntsAt(0)) {
    if (!size.is_number() || size.seen() < 0 || size.seen() > 64) return Results{};
    made.sizes.push_back(size.seen());
    count *= size.seen();
  }
  if (!at::isIntegralType(dtype, true) || count > 64 || made.sizes.size() > 1) return Results{};
  made.ints.assign(static_cast<size_t>(count), Int(value.toLong()));
  return made;
}

Results Range(NodeCall& n) {
  const Value& first = n.ValueAt(0);
  const at::ScalarType dtype = first.known ? first.known->dtype : first.tensor.scalar_type();
  if (at::isIntegralType(dtype, false)) {
    const Int step = n.IntAt(2);
    if (step.Fix() == 0) Reject("a step of 0");
    const Int start = n.IntAt(0), limit = n.IntAt(1);
    // ONNX gives nothing where PyTorch refuses.
    const bool is_empty = step.seen() > 0 ? limit <= start : start <= limit;
    const double count =
        (static_cast<double>(limit.seen()) - static_cast<double>(start.seen())) / static_cast<double>(step.seen());
    NodeCall::CheckCount({Int(static_cast<int64_t>(std::clamp(count, 0.0, 1e18)))});
    return {n.Call("aten::arange.start_step", {start, is_empty ? start : limit, step, dtype})};
  }
  const double start = n.NumbersAt(0).at(0), limit = n.NumbersAt(1).at(0), step = n.NumbersAt(2).at(0);
  if (step == 0) Reject("a step of 0");
  const bool is_empty = step > 0 ? limit <= start : start <= limit;
  const double count = (limit - start) / step;
  if (!std::isfinite(count)) Reject("bounds that are no numbers");
  NodeCall::CheckCount({Int(static_cast<int64_t>(std::clamp(count, 0.0, 1e18)))});
  return {n.Call("aten::arange.start_step", {start, is_empty ? start : limit, step, dtype})};
}

Results EyeLike(NodeCall& n) {
  const at::Tensor x = n.In(0);
  const auto dtype = n.HasAttribute("dtype") ? ScalarTypeOf(n.IntOf("dtype")) : x.scalar_type();
  if (!dtype) Refuse(fmt::format("elements of type {}", NameOf(n.IntOf("dtype"))));
  if (x.dim() != 2) Reject(fmt::format("{} dims instead of 2", x.dim()));
  const int64_t k = n.IntOf("k", 0);
  const at::Tensor rows = n.Call("aten::arange.start_step", {0, n.SizeOf(x, 0), 1, at::kLong});
  const at::Tensor columns = n.Call("aten::arange.start_step", {0, n.SizeOf(x, 1), 1, at::kLong});
  const at::Tensor below = n.Call("aten::unsqueeze", {n.Call("aten::add.Scalar", {rows, k}), 1});
  return {n.To(n.Call("aten::eq.Tensor", {below, columns}), *dtype)};
}

constexpr Operator kTable[] = {
    {"Constant", 1, Constant},       {"ConstantOfShape", 9, ConstantOfShape, KnownConstantOfShape},
    {"EyeLike", 9, EyeLike},         {"Range", 11, Range},
    {"Shape", 1, Shape, KnownShape}, {"Size", 1, Size, KnownSize},
};

}  // namespace size_part
}  // namespace

std::span<const Operator> SizeOperators() { return size_part::kTable; }

}  // namespace ingot::onnx
