// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/random_graph.h"

#include <limits>

#include "compiler/ir/verify.h"

namespace ingot::compiler {
namespace {

class Maker {
 public:
  Maker(std::mt19937_64& random, std::span<const std::string_view> ops)
      : random_(random), ops_(ops.begin(), ops.end()) {}

  Graph Run() {
    graph_.name = Pick(3) ? "forward" : "odd \"name\"\n";
    const int inputs = Pick(5);
    for (int i = 0; i < inputs; ++i) AddInput();
    const int nodes = Pick(12);
    for (int i = 0; i < nodes; ++i) AddNode();
    std::vector<ValueId> outputs;
    for (int i = Pick(3); i > 0 && graph_.value_count() > 0; --i) outputs.push_back(AnyValue());
    graph_.SetOutputs(std::move(outputs));
    std::vector<Write> writes;
    for (const Input& input : graph_.inputs) {
      if (input.kind != InputKind::kConstant && Pick(4) == 0) {
        writes.push_back({input.value, input.value});
      }
    }
    graph_.SetWrites(std::move(writes));
    return std::move(graph_);
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % n); }
  ValueId AnyValue() { return static_cast<ValueId>(random_() % graph_.value_count()); }
  DType AnyDType() { return static_cast<DType>(Pick(12)); }

  int64_t AnyInteger() {
    constexpr int64_t kEdges[] = {
        0, 1, -1, 4096, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    return Pick(2) ? kEdges[Pick(6)] : Pick(100);
  }

  Dim AnyDim() {
    Dim dim = AnyInteger();
    while (!graph_.symbols.empty() && Pick(2)) {
      dim = dim + Dim(Pick(9) - 4) * AnySize() * (Pick(2) ? AnySize() : Dim(1));
    }
    return dim;
  }
  /// A symbol, or what windows of it, halves of it and a bound make of one.
  Dim AnySize() {
    const Dim symbol = AnySymbol();
    switch (Pick(6)) {
      case 0: return guards::MakeAtom(guards::Atom::Kind::kFloorDiv, symbol + Dim(Pick(9)), Dim(Pick(8) + 1));
      case 1: return guards::MakeAtom(guards::Atom::Kind::kMin, symbol + AnySymbol(), Dim(Pick(64)));
      case 2: return guards::MakeAtom(guards::Atom::Kind::kMax, symbol, AnySymbol());
      default: return symbol;
    }
  }
  Dim AnySymbol() { return Dim::Symbol(static_cast<uint16_t>(Pick(graph_.symbols.size()))); }

  double AnyDouble() {
    constexpr double kEdges[] = {0.0,
                                 -0.0,
                                 2.0,
                                 1e300,
                                 5e-324,
                                 0.1,
                                 1e16,
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()};
    return Pick(2) ? kEdges[Pick(10)] : static_cast<double>(random_()) / 3.0;
  }

  std::string AnyName() {
    constexpr const char* kNames[] = {"x", "x", "x_2", "self.w", "", "0", "a\"b\\c\n\x01", "\xc3\xa4"};
    return kNames[Pick(8)];
  }

  Type AnyType() {
    Type type{AnyDType(), {}, {}};
    for (int rank = Pick(5); rank > 0; --rank) {
      type.sizes.push_back(graph_.symbols.empty() || Pick(2) ? Dim(Pick(6)) : AnySize());
    }
    type.strides = guards::ContiguousStrides(type.sizes);
    if (Pick(3) == 0) {
      for (Dim& stride : type.strides) stride = AnyDim();
    }
    return type;
  }

  void AddInput() {
    const InputKind kind = static_cast<InputKind>(Pick(3));
    if (kind == InputKind::kConstant) {
      const Type type = Type::Contiguous(AnyDType(), {Pick(3), Pick(3)});
      std::string data(*ConstantBytes(type), '\0');
      for (char& c : data) c = static_cast<char>(random_());
      graph_.AddInput(kind, AnyName(), type, data);
      return;
    }
    Type type = AnyType();
    if (!type.sizes.empty() && Pick(2)) {
      const uint16_t symbol = static_cast<uint16_t>(graph_.symbols.size());
      const uint32_t dim = static_cast<uint32_t>(Pick(type.sizes.size()));
      type.sizes[dim] = Dim::Symbol(symbol);
      graph_.symbols.push_back({static_cast<uint32_t>(graph_.inputs.size()), dim});
    }
    graph_.AddInput(kind, AnyName(), std::move(type));
  }

  Arg AnyArg() {
    switch (Pick(13)) {
      case 0: return None{};
      case 1: return Number{Pick(2) == 0};
      case 2: return Number{AnyDim()};
      case 3: return Number{AnyDouble()};
      case 4: return Pick(2) == 0;
      case 5: return AnyDim();
      case 6: return AnyDouble();
      case 7: return AnyName();
      case 8: return DTypeArg{AnyDType()};
      case 9: return ListOf<Dims>([this] { return AnyDim(); });
      case 10: return ListOf<std::vector<double>>([this] { return AnyDouble(); });
      case 11: return ListOf<std::vector<bool>>([this] { return Pick(2) == 0; });
      default:
        return RefList{ListOf<std::vector<ValueId>>(
            [this] { return graph_.value_count() == 0 || Pick(3) == 0 ? kNoValue : AnyValue(); })};
    }
  }

  template <typename List, typename Fn>
  List ListOf(Fn&& make) {
    List list;
    for (int i = Pick(4); i > 0; --i) list.push_back(make());
    return list;
  }

  void AddNode() {
    if (graph_.value_count() > 0 && Pick(6) == 0) {
      Node guard{"guard.equal", {Ref{AnyValue()}, Number{AnyDouble()}}};
      guard.effects = kGuard;
      graph_.AddNode(std::move(guard), {});
      return;
    }
    Node node{ops_[Pick(ops_.size())], {}};
    if (graph_.value_count() > 0) node.args.push_back(Ref{AnyValue()});
    for (int i = Pick(4); i > 0; --i) node.args.push_back(AnyArg());
    if (Pick(5) == 0) node.effects |= kRandom;
    if (Pick(5) == 0) node.effects |= kOpaque;
    std::vector<Type> types;
    for (int i = Pick(3); i > 0; --i) types.push_back(AnyType());
    const bool ref_first = !node.args.empty() && std::holds_alternative<Ref>(node.args[0]);
    if (ref_first && !types.empty() && Pick(4) == 0) node.inplace = 0;
    graph_.AddNode(std::move(node), std::move(types));
  }

  std::mt19937_64& random_;
  std::vector<std::string> ops_;
  Graph graph_;
};

}  // namespace

Graph RandomGraph(std::mt19937_64& random) {
  // Names that inference does not know, so that any types go with them.
  constexpr std::string_view kOps[] = {"aten.unknown.Tensor", "my_ops.f"};
  return RandomGraph(random, kOps);
}

Graph RandomGraph(std::mt19937_64& random, std::span<const std::string_view> ops) { return Maker(random, ops).Run(); }

}  // namespace ingot::compiler
