// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "client/native/trace/recorder.h"
#include "client/onnx/model.h"
#include "client/onnx/node_error.h"
#include "client/onnx/value.h"

namespace ingot::onnx {

class Evaluator;
class NodeCall;
struct Operator;

/// While it lives nothing is noted: constants are made.
class Unnoted {
  c10::impl::ExcludeDispatchKeyGuard guard_{client::Recorder::kModeKey};
};

/// An argument of an ATen operator: what IValue holds, or integers that are followed.
struct Arg {
  Arg(at::Tensor value) : value(std::move(value)) {}  // NOLINT: as Python passes arguments
  Arg(const std::optional<at::Tensor>& given) : value(given ? c10::IValue(*given) : c10::IValue()) {}  // NOLINT
  Arg(std::vector<at::Tensor> values);                                                                // NOLINT
  Arg(std::vector<std::optional<at::Tensor>> values);                                                 // NOLINT
  Arg(Int given) : value(given.seen()), ints{given} {}                                                // NOLINT
  Arg(int given) : Arg(Int(given)) {}                                                                 // NOLINT
  Arg(int64_t given) : Arg(Int(given)) {}                                                             // NOLINT
  Arg(Ints given);                                                                                    // NOLINT
  Arg(const std::vector<int64_t>& given) : Arg(Ints(given.begin(), given.end())) {}                   // NOLINT
  Arg(double given) : value(given) {}                                                                 // NOLINT
  Arg(bool given) : value(given) {}                                                                   // NOLINT
  Arg(const char* given) : value(std::string(given)) {}                                               // NOLINT
  Arg(const std::string& given) : value(given) {}                                                     // NOLINT
  Arg(at::ScalarType given) : value(static_cast<int64_t>(given)) {}                                   // NOLINT
  Arg(std::nullopt_t) {}                                                                              // NOLINT

  c10::IValue value;
  Ints ints;
};

using Args = std::vector<Arg>;

/// One node while it runs, as lowerings see it: inputs, attributes with their defaults, and ATen's operators.
///
/// Whatever breaks a rule of ONNX or is not understood is thrown as NodeError. An attribute that no lowering asks for
/// is refused, so that none is overlooked.
class NodeCall {
 public:
  NodeCall(Evaluator& evaluator, const Node& node, const Operator& op, int64_t opset, std::vector<Value> inputs);

  const Node& node() const { return node_; }
  const Operator& op() const { return op_; }
  /// Version of the operator set that the model is written in.
  int64_t opset() const { return opset_; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return node_.outputs.size(); }
  /// Whether somebody uses output `i`.
  bool Wants(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  /// Whether input `i` is given.
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i].is_defined(); }

  /// Elements of input `i`; within a movement of known integers their positions (Moves).
  at::Tensor In(size_t i);
  /// Elements of input `i`; those of 4 bits as bytes, one for each, of the same signedness.
  at::Tensor Levels(size_t i);
  std::optional<at::Tensor> MaybeIn(size_t i) { return Has(i) ? std::optional(In(i)) : std::nullopt; }
  std::vector<at::Tensor> AllIn();
  /// Elements of input `i`, which says where others go; never positions.
  at::Tensor Index(size_t i);
  const Value& ValueAt(size_t i) const;
  /// The integers of input `i`, in order, whatever its sizes. Refused where they depend on data.
  Ints IntsAt(size_t i);
  Int IntAt(size_t i);
  /// The numbers of input `i`, for what is computed as a float; integers that become elements are IntsAt's. Refused
  /// where they depend on data, or f64 does not hold them; what sizes they were made of is fixed.
  std::vector<double> NumbersAt(size_t i);
  bool TruthAt(size_t i) { return NumbersAt(i).at(0) != 0; }

  bool HasAttribute(std::string_view name) const;
  int64_t IntOf(std::string_view name, std::optional<int64_t> otherwise = std::nullopt);
  /// 0 or 1: what another number means, runtimes tell in two ways.
  bool FlagOf(std::string_view name, std::optional<int64_t> otherwise = std::nullopt);
  double FloatOf(std::string_view name, std::optional<double> otherwise = std::nullopt);
  std::string TextOf(std::string_view name, std::optional<std::string> otherwise = std::nullopt);
  std::optional<std::vector<int64_t>> IntsOf(std::string_view name);
  std::optional<std::vector<double>> FloatsOf(std::string_view name);
  std::optional<std::vector<std::string>> TextsOf(std::string_view name);
  std::optional<at::Tensor> TensorOf(std::string_view name);
  const Graph& GraphOf(std::string_view name);
  /// It changes nothing here, or nothing that is computed.
  void Ignore(std::string_view name) { used_.emplace(name); }
  /// Refuses attributes that nobody has asked for.
  void CheckAttributes() const;

  Int SizeOf(const at::Tensor& tensor, int64_t dim);
  Ints SizesOf(const at::Tensor& tensor);
  /// `axis` counted from the front; an axis that is not there is rejected.
  static int64_t Axis(int64_t axis, int64_t rank);
  static std::vector<int64_t> Axes(const std::vector<int64_t>& axes, int64_t rank);

  /// Integers that are positions in a dim of `size`: the same ones, but a call in which one lies outside of 0..size is
  /// an error, as that of an operator which looks there. For whatever computes with positions before any operator does.
  at::Tensor Within(const at::Tensor& positions, const Int& size);
  /// The same for positions that may count from the end, which are counted from the front then.
  at::Tensor WithinEither(const at::Tensor& positions, const Int& size);

  /// Rejects sizes of what is made of nothing that are beyond reason: a run makes them up.
  static void CheckCount(const Ints& sizes);

  /// Rejects what does not spread over `onto` and leave its sizes: where PyTorch stretches both, ONNX stretches one.
  void CheckSpreads(std::string_view what, const at::Tensor& from, const at::Tensor& onto);

  /// Calls an operator of PyTorch by its name ("aten::add.Tensor"); what is not given is its default.
  at::Tensor Call(std::string_view op, Args args) { return CallAll(op, std::move(args)).at(0); }
  std::vector<at::Tensor> CallAll(std::string_view op, Args args);
  /// Runs a graph of this node with these inputs, in order; its outputs. It sees the names around the node.
  std::vector<Value> RunBody(const Graph& body, const std::vector<Value>& inputs);
  /// Whether input `i` is the same in every call.
  bool IsConstant(size_t i) const { return ValueAt(i).is_constant; }
  /// The integers of a value that is the same in every call; null where there are none, or too many.
  std::shared_ptr<const KnownInts> KnownOf(const Value& value) const;
  /// A truth that no data decides; what sizes it was made of is fixed.
  bool TruthOf(const Value& value);
  /// The same; where data decides, each answer is a way of its own.
  bool DecisionOn(const Value& value);
  /// The elements of a value.
  at::Tensor ElementsOf(Value value);
  /// A tensor that is the same in every call.
  at::Tensor Constant(const at::Tensor& tensor);
  /// Positions that are the same in every call.
  at::Tensor IndexTensor(const std::vector<int64_t>& positions);
  /// A number of the type of `like`, without dims.
  at::Tensor Number(double value, const at::Tensor& like) { return Number(value, like.scalar_type()); }
  at::Tensor Number(double value, at::ScalarType dtype);
  /// Integers as a tensor.
  at::Tensor Elements(const KnownInts& known);

  // Shorthand of what lowerings are made of.
  at::Tensor Add(const at::Tensor& a, const at::Tensor& b) { return Call("aten::add.Tensor", {a, b}); }
  at::Tensor Sub(const at::Tensor& a, const at::Tensor& b) { return Call("aten::sub.Tensor", {a, b}); }
  at::Tensor Mul(const at::Tensor& a, const at::Tensor& b) { return Call("aten::mul.Tensor", {a, b}); }
  at::Tensor Div(const at::Tensor& a, const at::Tensor& b) { return Call("aten::div.Tensor", {a, b}); }
  at::Tensor Times(const at::Tensor& a, double b) { return Call("aten::mul.Scalar", {a, b}); }
  at::Tensor Plus(const at::Tensor& a, double b) { return Call("aten::add.Scalar", {a, b}); }
  at::Tensor To(const at::Tensor& a, at::ScalarType dtype);
  at::Tensor Reshape(const at::Tensor& a, Ints sizes) { return Call("aten::reshape", {a, std::move(sizes)}); }
  at::Tensor Where(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) {
    return Call("aten::where.self", {c, a, b});
  }

 private:
  friend class Evaluator;
  const Attribute* Find(std::string_view name, Attribute::Kind kind);

  Evaluator& evaluator_;
  const Node& node_;
  const Operator& op_;
  const int64_t opset_;
  std::vector<Value> inputs_;
  std::unordered_set<std::string> used_;
  bool moves_ = false;
};

}  // namespace ingot::onnx
