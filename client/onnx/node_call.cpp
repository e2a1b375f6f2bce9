// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/node_call.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/digest.h"
#include "client/onnx/evaluator.h"
#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {

constexpr int64_t kMadeMax = int64_t{1} << 28;

template <typename Items>
c10::IValue ListOf(const Items& items) {
  c10::impl::GenericList list(c10::AnyType::get());
  for (const auto& item : items) list.push_back(c10::IValue(item));
  return c10::IValue(std::move(list));
}

}  // namespace

Arg::Arg(std::vector<at::Tensor> values) : value(ListOf(values)) {}
Arg::Arg(std::vector<std::optional<at::Tensor>> values) : value(ListOf(values)) {}
Arg::Arg(Ints given) : value(ListOf(Seen(given))), ints(std::move(given)) {}

NodeCall::NodeCall(Evaluator& evaluator, const Node& node, const Operator& op, int64_t opset, std::vector<Value> inputs)
    : evaluator_(evaluator), node_(node), op_(op), opset_(opset), inputs_(std::move(inputs)) {}

const Value& NodeCall::ValueAt(size_t i) const {
  if (!Has(i)) Reject(fmt::format("lacks input {}", i));
  return inputs_[i];
}

at::Tensor NodeCall::In(size_t i) {
  ValueAt(i);
  if (!moves_) return evaluator_.ElementsOf(inputs_[i]);
  int64_t first = 0;
  for (size_t k = 0; k < i; ++k) first += Has(k) ? static_cast<int64_t>(inputs_[k].known->ints.size()) : 0;
  const KnownInts& known = *inputs_[i].known;
  return at::arange(first, first + static_cast<int64_t>(known.ints.size()), at::kLong).view(known.sizes);
}

at::Tensor NodeCall::Levels(size_t i) {
  const auto nibbles = ValueAt(i).nibbles;
  at::Tensor bytes = In(i);
  if (nibbles == nullptr) return bytes;
  std::vector<int64_t> rows = nibbles->sizes;
  int64_t count = 1;
  for (const int64_t size : rows) count *= size;
  // Whole bytes lie in each row, or all elements are one.
  const bool is_even = !rows.empty() && rows.back() % 2 == 0;
  if (is_even) rows.back() /= 2;
  if (is_even) bytes = Reshape(bytes, Ints(rows.begin(), rows.end()));
  const at::Tensor low = Call("aten::bitwise_and.Scalar", {bytes, 15});
  const at::Tensor high = Call("aten::__rshift__.Scalar", {bytes, 4});
  at::Tensor levels = Call("aten::stack", {std::vector<at::Tensor>{low, high}, -1});
  if (is_even) {
    levels = Call("aten::flatten.using_ints", {levels, -2, -1});
  } else {
    levels = Call("aten::slice.Tensor", {Call("aten::flatten.using_ints", {levels}), 0, 0, count});
    levels = Reshape(levels, Ints(nibbles->sizes.begin(), nibbles->sizes.end()));
  }
  if (!nibbles->is_signed) return levels;
  // Two's complement of four bits: the upper half of the levels is negative.
  const at::Tensor turned = To(Call("aten::bitwise_xor.Scalar", {levels, 8}), at::kChar);
  return Call("aten::sub.Scalar", {turned, 8});
}

at::Tensor NodeCall::Index(size_t i) {
  ValueAt(i);
  if (!moves_) return evaluator_.ElementsOf(inputs_[i]);
  for (const Int& value : inputs_[i].known->ints) {
    if (!value.is_number()) throw NeedsTensors();
  }
  return evaluator_.ElementsOf(*inputs_[i].known);
}

std::vector<at::Tensor> NodeCall::AllIn() {
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < inputs_.size(); ++i) all.push_back(In(i));
  return all;
}

Ints NodeCall::IntsAt(size_t i) {
  const auto known = evaluator_.KnownOf(ValueAt(i), /*may_fix=*/true);
  if (known == nullptr) {
    Refuse(
        fmt::format("sizes or positions that depend on data: input {} ('{}'). Where it is an input of the model, "
                    "give it a value: --value NAME=N,N",
                    i, node_.inputs[i]));
  }
  return known->ints;
}

Int NodeCall::IntAt(size_t i) {
  const Ints ints = IntsAt(i);
  if (ints.size() != 1) Reject(fmt::format("input {} has {} elements instead of one", i, ints.size()));
  return ints.front();
}

std::vector<double> NodeCall::NumbersAt(size_t i) {
  const Value& value = ValueAt(i);
  if (!value.tensor.defined() || at::isIntegralType(value.tensor.scalar_type(), true)) {
    std::vector<double> numbers;
    for (const Int& number : IntsAt(i)) {
      numbers.push_back(static_cast<double>(number.Fix()));
      if (std::abs(numbers.back()) > 0x1p53) Refuse(fmt::format("{}, an integer that no float holds", number.seen()));
    }
    return numbers;
  }
  if (!value.is_constant && value.made_of == nullptr) {
    Refuse(
        fmt::format("a number that depends on data: input {} ('{}'). Where it is an input of the model, give it a "
                    "value: --value NAME=N,N",
                    i, node_.inputs[i]));
  }
  evaluator_.FixSizesOf(value);
  const Unnoted unnoted;
  const at::Tensor wide = value.tensor.to(at::kDouble).contiguous();
  const auto* first = wide.const_data_ptr<double>();
  return {first, first + wide.numel()};
}

const Attribute* NodeCall::Find(std::string_view name, Attribute::Kind kind) {
  used_.emplace(name);
  for (const Attribute& attribute : node_.attributes) {
    if (attribute.name != name) continue;
    // Lists that are empty have no kind of their own, but are lists.
    const bool wants_list = kind == Attribute::Kind::kFloats || kind == Attribute::Kind::kStrings;
    const bool is_empty = attribute.kind == Attribute::Kind::kInts && attribute.integers.empty();
    if (attribute.kind != kind && !(wants_list && is_empty))
      Reject(fmt::format("attribute '{}' is of another kind than ONNX says", name));
    return &attribute;
  }
  return nullptr;
}

bool NodeCall::HasAttribute(std::string_view name) const {
  return std::ranges::any_of(node_.attributes, [&](const Attribute& attribute) { return attribute.name == name; });
}

void NodeCall::CheckAttributes() const {
  for (const Attribute& attribute : node_.attributes) {
    if (!used_.contains(attribute.name)) Refuse(fmt::format("attribute '{}' has no rule here", attribute.name));
  }
}

namespace {

template <typename T>
T Required(const std::optional<T>& value, std::string_view name) {
  if (!value) Reject(fmt::format("lacks attribute '{}'", name));
  return *value;
}

}  // namespace

int64_t NodeCall::IntOf(std::string_view name, std::optional<int64_t> otherwise) {
  const Attribute* found = Find(name, Attribute::Kind::kInt);
  return found ? found->integer : Required(otherwise, name);
}
bool NodeCall::FlagOf(std::string_view name, std::optional<int64_t> otherwise) {
  const int64_t given = IntOf(name, otherwise);
  if (given != 0 && given != 1) Reject(fmt::format("attribute '{}' is {} instead of 0 or 1", name, given));
  return given == 1;
}
double NodeCall::FloatOf(std::string_view name, std::optional<double> otherwise) {
  const Attribute* found = Find(name, Attribute::Kind::kFloat);
  // The file has it in single precision, and so is what stands for it, which is seen in operands of more.
  return found ? found->number : static_cast<double>(static_cast<float>(Required(otherwise, name)));
}
std::string NodeCall::TextOf(std::string_view name, std::optional<std::string> otherwise) {
  const Attribute* found = Find(name, Attribute::Kind::kString);
  return found ? found->text : Required(otherwise, name);
}
std::optional<std::vector<int64_t>> NodeCall::IntsOf(std::string_view name) {
  const Attribute* found = Find(name, Attribute::Kind::kInts);
  return found ? std::optional(found->integers) : std::nullopt;
}
std::optional<std::vector<double>> NodeCall::FloatsOf(std::string_view name) {
  const Attribute* found = Find(name, Attribute::Kind::kFloats);
  return found ? std::optional(found->numbers) : std::nullopt;
}
std::optional<std::vector<std::string>> NodeCall::TextsOf(std::string_view name) {
  const Attribute* found = Find(name, Attribute::Kind::kStrings);
  return found ? std::optional(found->texts) : std::nullopt;
}
std::optional<at::Tensor> NodeCall::TensorOf(std::string_view name) {
  const Attribute* found = Find(name, Attribute::Kind::kTensor);
  return found && found->tensor.defined() ? std::optional(found->tensor) : std::nullopt;
}

const Graph& NodeCall::GraphOf(std::string_view name) {
  const Attribute* found = Find(name, Attribute::Kind::kGraph);
  if (found == nullptr) Reject(fmt::format("lacks attribute '{}'", name));
  return *found->body;
}

Int NodeCall::SizeOf(const at::Tensor& tensor, int64_t dim) {
  dim = Axis(dim, tensor.dim());
  const auto value = evaluator_.is_quiet_ ? std::nullopt : evaluator_.recorder_.ValueOf(tensor);
  return value ? evaluator_.sizes_.OfValue(*value, dim, tensor.size(dim)) : Int(tensor.size(dim));
}

Ints NodeCall::SizesOf(const at::Tensor& tensor) {
  Ints sizes;
  for (int64_t d = 0; d < tensor.dim(); ++d) sizes.push_back(SizeOf(tensor, d));
  return sizes;
}

int64_t NodeCall::Axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) Reject(fmt::format("axis {} of {} dims", axis, rank));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> NodeCall::Axes(const std::vector<int64_t>& axes, int64_t rank) {
  std::vector<int64_t> counted;
  for (const int64_t axis : axes) {
    counted.push_back(Axis(axis, rank));
    if (std::count(counted.begin(), counted.end(), counted.back()) > 1) Reject(fmt::format("axis {} twice", axis));
  }
  return counted;
}

void NodeCall::CheckCount(const Ints& sizes) {
  int64_t count = 1;
  for (const Int& size : sizes) {
    if (__builtin_mul_overflow(count, std::max<int64_t>(size.seen(), 0), &count) || count > kMadeMax) {
      Reject(fmt::format("a tensor of more than {} elements is made of none", kMadeMax));
    }
  }
}

void NodeCall::CheckSpreads(std::string_view what, const at::Tensor& from, const at::Tensor& onto) {
  const int64_t lead = onto.dim() - from.dim();
  bool fits = lead >= 0;
  for (int64_t d = 0; fits && d < from.dim(); ++d) {
    const Int size = SizeOf(from, d);
    fits = (size.is_number() && size.seen() == 1) || size == SizeOf(onto, lead + d) || size == Int(1);
  }
  if (fits) return;
  Reject(fmt::format("{} of sizes [{}], which do not spread over [{}]", what, fmt::join(from.sizes(), ", "),
                     fmt::join(onto.sizes(), ", ")));
}

// Both look positions up in the list of all that there are, since PyTorch looks at each of those.
at::Tensor NodeCall::Within(const at::Tensor& positions, const Int& size) {
  const at::Tensor all = Call("aten::arange.start_step", {0, size, 1, at::kLong});
  const at::Tensor flat = Call("aten::flatten.using_ints", {To(positions, at::kLong)});
  return Reshape(Call("aten::gather", {all, 0, flat}), SizesOf(positions));
}

at::Tensor NodeCall::WithinEither(const at::Tensor& positions, const Int& size) {
  const at::Tensor all = Call("aten::arange.start_step", {0, size, 1, at::kLong});
  return Call("aten::index.Tensor", {all, std::vector<std::optional<at::Tensor>>{To(positions, at::kLong)}});
}

std::vector<at::Tensor> NodeCall::CallAll(std::string_view op, Args args) { return evaluator_.CallAll(op, args); }

std::vector<Value> NodeCall::RunBody(const Graph& body, const std::vector<Value>& inputs) {
  return evaluator_.RunBody(body, inputs);
}

bool NodeCall::TruthOf(const Value& value) {
  const auto known = evaluator_.KnownOf(value, /*may_fix=*/true);
  if (known == nullptr) {
    Refuse(
        "how often it turns depends on data. Where an input of the model says so, give it a value: --value NAME=N; "
        "else let the program around the model turn, with the body as a model of its own");
  }
  if (known->ints.size() != 1) Reject(fmt::format("a condition of {} elements", known->ints.size()));
  return known->ints.front().Fix() != 0;
}

bool NodeCall::DecisionOn(const Value& value) {
  const auto known = evaluator_.KnownOf(value, /*may_fix=*/true);
  return known == nullptr ? evaluator_.Decide(ElementsOf(value)) : TruthOf(value);
}

std::shared_ptr<const KnownInts> NodeCall::KnownOf(const Value& value) const {
  return evaluator_.KnownOf(value, /*may_fix=*/false);
}

at::Tensor NodeCall::ElementsOf(Value value) { return evaluator_.ElementsOf(value); }

at::Tensor NodeCall::Constant(const at::Tensor& tensor) {
  if (evaluator_.is_quiet_) return tensor;
  const Unnoted unnoted;
  const at::Tensor whole = tensor.contiguous();
  const Bytes bytes{static_cast<const uint8_t*>(whole.const_data_ptr()), whole.nbytes()};
  std::string name = fmt::format("constant {}[", at::toString(whole.scalar_type()));
  for (const int64_t size : whole.sizes()) name += fmt::format("{},", size);
  return evaluator_.constants_.Add(name + "]:" + DigestOf(bytes).ToHex(), whole);
}

at::Tensor NodeCall::Number(double value, at::ScalarType dtype) {
  const Unnoted unnoted;
  return Constant(at::full({}, value, dtype));
}

at::Tensor NodeCall::IndexTensor(const std::vector<int64_t>& positions) {
  const Unnoted unnoted;
  return Constant(at::tensor(positions, at::kLong));
}

at::Tensor NodeCall::Elements(const KnownInts& known) { return evaluator_.ElementsOf(known); }

at::Tensor NodeCall::To(const at::Tensor& a, at::ScalarType dtype) {
  if (a.scalar_type() == dtype) return a;
  return Call("aten::to.dtype", {a, dtype});
}

}  // namespace ingot::onnx
