// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "compiler/ir/use_lists.h"
#include "guards/dim.h"
#include "guards/dtype.h"

namespace ingot::compiler {

using guards::Dim;
using guards::Dims;
using guards::DType;

/// Index of a Value in its Graph. Stable while a graph lives: dead values keep their number.
using ValueId = uint32_t;
inline constexpr ValueId kNoValue = ~0u;
using NodeId = uint32_t;
inline constexpr NodeId kNoNode = ~0u;

/// Element type, sizes and strides of one tensor value. Strides are in elements and always
/// present: a view keeps its exact layout, everything else is what eager produced.
struct Type {
  DType dtype = DType::kF32;
  Dims sizes;
  Dims strides;

  static Type Contiguous(DType dtype, Dims sizes);
  bool IsContiguous() const;  ///< Row-major; strides of dims of size 1 do not matter.
  bool IsDense() const;       ///< The dims, in some order, fill their extent without gaps or overlap.
  size_t rank() const { return sizes.size(); }
  Dim Elements() const { return guards::Product(sizes); }
  Dim Extent() const;         ///< Elements from the first to the last it addresses, gaps included.
  bool operator==(const Type&) const = default;
};

/// A tensor operand.
struct Ref {
  ValueId id = kNoValue;
  bool operator==(const Ref&) const = default;
};
/// A Python number in a tensor position (`x * 2.0`): takes part in type promotion as a scalar,
/// not as a tensor. Text: `number 2.0`.
struct Number {
  std::variant<bool, Dim, double> value;
  bool operator==(const Number&) const = default;
};
struct None {
  bool operator==(const None&) const = default;
};
/// Anything torch prints as a name: a device, layout, memory format, string argument.
/// Text: `"cpu"`.
using Name = std::string;
/// An element type argument. Text: `dtype f32`.
struct DTypeArg {
  DType dtype;
  bool operator==(const DTypeArg&) const = default;
};
/// A list of tensors, some of which may be absent (index lists). Text: `[%0, none]`.
struct RefList {
  std::vector<ValueId> ids;  ///< kNoValue = none
  bool operator==(const RefList&) const = default;
};

/// One argument of a node, in the order of the operator's schema with defaults filled in.
/// Integers are Dims so that a template can make any of them depend on sizes.
using Arg = std::variant<None, Ref, Number, bool, Dim, double, Name, DTypeArg, RefList, Dims, std::vector<double>,
                         std::vector<bool>>;

/// What a node does besides computing its results.
enum Effect : uint8_t {
  kPure = 0,
  kRandom = 1,   ///< Advances the live generator: never merged, dropped or reordered with others.
  kGuard = 2,    ///< guard.equal, guard.shape: compare with what Python saw; no results.
  kOpaque = 4,   ///< Unknown effects (custom op): keeps its place among effects.
};

/// One operation. `op` is the schema name with its overload ("aten.add.Tensor", "aten.silu",
/// "aten.linear"), an Ingot op ("guard.equal"), or "ingot.kernel" after fusion.
struct Node {
  std::string op;
  std::vector<Arg> args;
  std::vector<ValueId> results;
  uint8_t effects = kPure;
  /// After reinplace: result 0 is written into the storage of this operand (an index into
  /// args, which is a Ref); -1 = none. Text: `{inplace = 0}`.
  int16_t inplace = -1;
  /// Seconds eager needed, for reports; 0 when unknown. Not part of text or key.
  float eager_s = 0;
  /// While a recording is imported: the step whose arguments these are, from the one after
  /// `step_shift` on; -1 = none. Not part of text or key.
  int32_t step = -1;
  int32_t step_shift = 0;
  /// While a recording is imported: the recorded value whose sizes the list among the arguments repeats; -1 = none.
  int32_t sizes_of = -1;
};

enum class InputKind : uint8_t {
  kInput,     ///< A tensor leaf of the call; bound at every call.
  kWeight,    ///< Parameter, buffer or other tensor bound by path at load.
  kConstant,  ///< Bytes carried by the graph.
};

struct Value {
  Type type;
  /// Defining node, or kNoNode for inputs, weights and constants.
  NodeId def = kNoNode;
  uint32_t result = 0;  ///< Which result of `def`.
};

struct Input {
  ValueId value = kNoValue;
  InputKind kind = InputKind::kInput;
  std::string name;      ///< "x", "encoder.layer.0.weight"; erased by canonical form.
  std::string data;      ///< kConstant: the elements, contiguous, little-endian.
};

/// `*target = value` at the end of a run: how in-place changes of inputs, buffers and caches
/// become visible. The target is an input or weight value.
struct Write {
  ValueId target = kNoValue;
  ValueId value = kNoValue;
  bool operator==(const Write&) const = default;
};

/// One definition of a symbol: s_i is `sizes[dim]` of input number `input`.
struct SymbolSource {
  uint32_t input = 0;
  uint32_t dim = 0;
  bool operator==(const SymbolSource&) const = default;
};

/// A list that everybody reads and only its graph changes.
template <typename T>
class GraphList {
 public:
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  const T& operator[](size_t i) const { return items_[i]; }
  operator const std::vector<T>&() const { return items_; }  // NOLINT

 private:
  friend class Graph;
  std::vector<T> items_;
};

struct UserPattern;

/// Sums over the ranks of a group may become sums of a part of the rows on each rank
/// (compiler/passes/sequence_parallel.cpp).
struct SequenceParallel {
  static constexpr int64_t kRanksMax = 64;
  uint32_t group = 0;  ///< Its slot.
  int64_t ranks = 0;   ///< How many it has, from 2 on; 0: this is not asked for.

  /// kInvalid: there is no such slot, or not from 2 to kRanksMax ranks.
  static Result<SequenceParallel> Of(uint32_t group, int64_t ranks);
  bool operator==(const SequenceParallel&) const = default;
};

/// A captured program as data: functional SSA at the level the user wrote it.
///
/// Views are pure operations whose result *may* share memory with their operand (the plan
/// decides); in-place operations do not occur except as `Node::inplace` set by the reinplace
/// pass. Order of inputs is the order of the recording's sources and never changes: callers
/// bind by position. Outputs may repeat, and may be inputs.
/// Whoever uses a value is known at any time: operands, outputs and writes change by the methods below and by nothing
/// else, and each costs as much as what it changes. Only nodes in the order use anything.
/// Thread-compatible; the first order() after InsertBefore or RemoveNode counts as a change.
/// Text format: docs/format/ir.md.
class Graph {
 public:
  std::string name = "forward";
  std::vector<Input> inputs;
  std::vector<SymbolSource> symbols;  ///< sources of s0, s1, ...
  GraphList<ValueId> outputs;
  GraphList<Write> writes;
  /// Every f16 and bf16 result is rounded to its type, also where it never reaches memory (docs/numerics.md).
  bool eager_numerics = false;
  SequenceParallel sequence_parallel;
  /// What users want to have put in the place of what, in the order in which it is tried (compiler/ir/user_pattern.h).
  std::vector<std::shared_ptr<const UserPattern>> patterns;

  ValueId AddInput(InputKind kind, std::string name, Type type, std::string data = {});
  void SetOutputs(std::vector<ValueId> values);
  void SetWrites(std::vector<Write> values);
  /// Appends a node; result values are created from `types` in order.
  NodeId AddNode(Node node, std::vector<Type> types);
  /// As AddNode, but placed directly before `before`, a node in the order.
  NodeId InsertBefore(NodeId before, Node node, std::vector<Type> types);
  /// Takes the node out of the order; its results must be unused.
  void RemoveNode(NodeId id);

  /// Operators and arguments change under the same results.
  void Redefine(NodeId id, std::string op, std::vector<Arg> args);
  void SetArgs(NodeId id, std::vector<Arg> args);
  void SetArg(NodeId id, size_t i, Arg arg);
  void SetInplace(NodeId id, int16_t operand) { nodes_[id].inplace = operand; }
  /// All that use `from` use `to`; linear in the uses of `from`.
  void ReplaceUses(ValueId from, ValueId to);

  /// Nodes in the order in which they run. Linear after InsertBefore or RemoveNode, else free.
  const std::vector<NodeId>& order() const;
  bool IsPlaced(NodeId id) const { return places_[id].is_taken; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  Value& value(ValueId id) { return values_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  const Type& type(ValueId id) const { return values_[id].type; }
  size_t value_count() const { return values_.size(); }
  size_t node_capacity() const { return nodes_.size(); }
  /// Who uses a value: operands of nodes in the order, outputs, and values (not targets) of writes.
  UseLists::Range uses(ValueId id) const { return uses_.of(id); }
  uint32_t use_count(ValueId id) const { return uses_.count(id); }
  /// The value that is used there; kNoValue where an operand is absent.
  ValueId OperandAt(const Use& use) const { return uses_.at(use); }
  /// Input index of a value, or -1.
  int InputIndex(ValueId id) const;
  /// Replaces the execution order; must be a permutation of a subset of nodes.
  void SetOrder(std::vector<NodeId> order);

 private:
  /// Neighbours in the order; whether the node stands there at all.
  struct Place {
    NodeId next = kNoNode, previous = kNoNode;
    bool is_taken = false;
  };

  NodeId MakeNode(Node node, std::vector<Type> types);
  /// Puts the node before another, or at the end before kNoNode.
  void Insert(NodeId id, NodeId before);
  void NoteOperands(NodeId id);
  ValueId& PlaceOf(const Use& use);

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  UseLists uses_;
  std::vector<Place> places_;
  NodeId first_ = kNoNode, last_ = kNoNode;
  /// The same as a list, made when somebody asks.
  mutable std::vector<NodeId> order_;
  mutable bool is_order_stale_ = false;
};

/// Calls `fn(ValueId)` for every tensor operand of `node`, list elements included.
template <typename Fn>
void ForEachOperand(const Node& node, Fn&& fn) {
  for (const Arg& arg : node.args) {
    if (const auto* ref = std::get_if<Ref>(&arg)) fn(ref->id);
    if (const auto* list = std::get_if<RefList>(&arg)) {
      for (ValueId id : list->ids) {
        if (id != kNoValue) fn(id);
      }
    }
  }
}

}  // namespace ingot::compiler
