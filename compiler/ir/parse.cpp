// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include <fmt/format.h>

#include "compiler/ir/scanner.h"
#include "compiler/ir/text.h"
#include "compiler/ir/user_pattern.h"
#include "compiler/ir/verify.h"
#include "compiler/ir/written_memories.h"
#include "proto/group_slot.h"

namespace ingot::compiler {
namespace {

constexpr size_t kTextBytesMax = 1u << 30;
constexpr size_t kRankMax = 64;
constexpr size_t kArgsMax = 4096;
constexpr size_t kListMax = 1u << 20;

/// Reads one graph, or those of its patterns; the grammar is in docs/format/ir.md, one method for each of its rules.
class Parser {
 public:
  explicit Parser(Scanner& in) : in_(in) {}

  /// The graph with its patterns, and nothing behind it.
  Result<Graph> RunToEnd() {
    TRY_ASSIGN(Graph graph, Run());
    while (in_.TakeWord("pattern")) {
      const size_t at = in_.Here();
      if (graph.patterns.size() == kUserPatternsMax) return in_.FailAt(at, "too many patterns");
      TRY_ASSIGN(auto pattern, ReadPattern());
      graph.patterns.push_back(std::move(pattern));
    }
    if (!in_.AtEnd()) return in_.Expected("a pattern or the end of the text after '}'");
    return graph;
  }

 private:
  Result<Graph> Run() {
    TRY(ReadSignature());
    TRY(in_.Expect('{'));
    TRY(ReadBody());
    TRY(in_.Expect('}'));
    if (const std::optional<Violation> violation = FindViolation(graph_)) {
      const bool node = violation->node < node_offsets_.size();
      return in_.FailAt(node ? node_offsets_[violation->node] : 0,
                        (node ? graph_.node(violation->node).op + " " : "") + violation->rule);
    }
    return std::move(graph_);
  }

  Result<std::shared_ptr<const UserPattern>> ReadPattern() {
    const size_t at = in_.Here();
    auto pattern = std::make_shared<UserPattern>();
    TRY_ASSIGN(pattern->name, in_.Quoted());
    TRY(in_.Expect('{'));
    TRY_ASSIGN(pattern->search, Parser(in_).Run());
    TRY_ASSIGN(pattern->replace, Parser(in_).Run());
    if (in_.Peek() != '}') {
      TRY_ASSIGN(Graph search, Parser(in_).Run());
      TRY_ASSIGN(Graph replace, Parser(in_).Run());
      pattern->varied.push_back(std::move(search));
      pattern->varied.push_back(std::move(replace));
    }
    TRY(in_.Expect('}'));
    if (const std::string fault = FindFault(*pattern); !fault.empty()) {
      return in_.FailAt(at, fmt::format("pattern \"{}\": {}", pattern->name, fault));
    }
    return std::shared_ptr<const UserPattern>(std::move(pattern));
  }

  Status ReadSignature() {
    TRY(in_.ExpectWord("graph"));
    TRY(in_.Expect('@'));
    if (in_.Peek() == '"') {
      TRY_ASSIGN(graph_.name, in_.Quoted());
    } else {
      TRY_ASSIGN(graph_.name, in_.Word("a graph name", false));
    }
    TRY(in_.Expect('('));
    if (!in_.Take(')')) {
      do {
        TRY(ReadInput());
      } while (in_.Take(','));
      TRY(in_.Expect(')'));
    }
    if (in_.TakeWord("symbols")) TRY(ReadSymbols());
    graph_.eager_numerics = in_.TakeWord("eager_numerics");
    return in_.TakeWord("sequence_parallel") ? ReadSequenceParallel() : Status();
  }

  Status ReadSequenceParallel() {
    TRY(in_.Expect('('));
    const size_t at = in_.Here();
    TRY_ASSIGN(const std::string group, in_.Quoted());
    TRY(in_.Expect(','));
    TRY_ASSIGN(const uint32_t ranks, in_.Unsigned("a number of ranks", SequenceParallel::kRanksMax));
    const std::optional<uint32_t> slot = proto::ParseGroupSlot(group);
    if (!slot) return in_.FailAt(at, fmt::format("\"{}\", expected a group slot such as \"group 0\"", group));
    auto parallel = SequenceParallel::Of(*slot, ranks);
    if (!parallel) return in_.FailAt(at, parallel.error().message());
    graph_.sequence_parallel = *parallel;
    return in_.Expect(')');
  }

  Status ReadInput() {
    const size_t at = in_.Here();
    TRY_ASSIGN(const std::string label, in_.Label());
    TRY(in_.Expect(':'));
    TRY_ASSIGN(Type type, ReadType());
    InputKind kind = InputKind::kInput;
    std::string name = label, data;
    if (in_.TakeWord("input")) {
      TRY_ASSIGN(name, in_.Quoted());
    } else if (in_.TakeWord("weight")) {
      kind = InputKind::kWeight;
      if (in_.Peek() == '"') {
        TRY_ASSIGN(name, in_.Quoted());
      }
    } else if (in_.TakeWord("constant")) {
      kind = InputKind::kConstant;
      TRY_ASSIGN(data, in_.HexBytes());
      if (in_.Peek() == '"') {
        TRY_ASSIGN(name, in_.Quoted());
      }
    }
    const ValueId id = graph_.AddInput(kind, std::move(name), std::move(type), std::move(data));
    return Define(at, label, id);
  }

  Status ReadSymbols() {
    TRY(in_.Expect('('));
    do {
      const size_t at = in_.Here();
      TRY_ASSIGN(const std::string symbol, in_.Word("a symbol", false));
      if (symbol != fmt::format("s{}", graph_.symbols.size())) {
        return in_.FailAt(at, fmt::format("expected s{}, the next symbol", graph_.symbols.size()));
      }
      if (graph_.symbols.size() == Scanner::kSymbolsMax) return in_.FailAt(at, "too many symbols");
      TRY(in_.Expect('='));
      TRY_ASSIGN(const ValueId input, ReadValue());
      TRY(in_.Expect('.'));
      TRY(in_.ExpectWord("dim"));
      TRY(in_.Expect('('));
      TRY_ASSIGN(const uint32_t dim, in_.Unsigned("a dim number", kRankMax));
      TRY(in_.Expect(')'));
      graph_.symbols.push_back({static_cast<uint32_t>(graph_.InputIndex(input)), dim});
    } while (in_.Take(','));
    return in_.Expect(')');
  }

  Status ReadBody() {
    while (!AtStatement("write") && !AtStatement("return")) TRY(ReadNode());
    std::vector<Write> writes;
    while (in_.TakeWord("write")) {
      TRY_ASSIGN(const ValueId target, ReadValue());
      TRY(in_.Expect('='));
      TRY_ASSIGN(const ValueId value, ReadValue());
      writes.push_back({target, value});
    }
    graph_.SetWrites(std::move(writes));
    TRY(in_.ExpectWord("return"));
    if (in_.Peek() != '%') return {};
    std::vector<ValueId> outputs;
    do {
      TRY_ASSIGN(const ValueId output, ReadValue());
      outputs.push_back(output);
    } while (in_.Take(','));
    graph_.SetOutputs(std::move(outputs));
    return {};
  }

  /// Looks ahead on a copy; every operator name has a dot, so these words name none.
  bool AtStatement(std::string_view word) const {
    Scanner ahead = in_;
    return ahead.TakeWord(word) && ahead.Peek() != '.';
  }

  Status ReadNode() {
    const size_t at = in_.Here();
    std::vector<std::string> labels;
    if (in_.Peek() == '%') {
      do {
        TRY_ASSIGN(std::string label, in_.Label());
        labels.push_back(std::move(label));
      } while (in_.Take(','));
      TRY(in_.Expect('='));
    }
    Node node;
    TRY_ASSIGN(node.op, in_.Word("an operator, 'write' or 'return'", true));
    TRY(ReadArgs(node));
    TRY(ReadAttributes(node));
    if (node.op.starts_with("guard.")) node.effects |= kGuard;
    std::vector<Type> types;
    for (size_t i = 0; i < labels.size(); ++i) {
      TRY(in_.Expect(i == 0 ? ':' : ','));
      TRY_ASSIGN(Type type, ReadType());
      types.push_back(std::move(type));
    }
    const NodeId id = graph_.AddNode(std::move(node), std::move(types));
    node_offsets_.push_back(at);
    for (size_t i = 0; i < labels.size(); ++i) {
      TRY(Define(at, labels[i], graph_.node(id).results[i]));
    }
    return {};
  }

  Status ReadArgs(Node& node) {
    TRY(in_.Expect('('));
    if (in_.Take(')')) return {};
    do {
      if (node.args.size() == kArgsMax) return in_.Expected("at most 4096 arguments");
      TRY_ASSIGN(Arg arg, ReadArg());
      node.args.push_back(std::move(arg));
    } while (in_.Take(','));
    return in_.Expect(')');
  }

  Status ReadAttributes(Node& node) {
    if (!in_.Take('{')) return {};
    do {
      if (in_.TakeWord("inplace")) {
        TRY(in_.Expect('='));
        TRY_ASSIGN(const uint32_t index, in_.Unsigned("an argument number", kArgsMax));
        node.inplace = static_cast<int16_t>(index);
      } else if (in_.TakeWord("opaque")) {
        node.effects |= kOpaque;
      } else if (in_.TakeWord("random")) {
        node.effects |= kRandom;
      } else {
        if (!in_.TakeWord("writes")) return in_.Expected("'inplace', 'opaque', 'random' or 'writes'");
        node.effects |= kWrites;
      }
    } while (in_.Take(','));
    return in_.Expect('}');
  }

  Result<Arg> ReadArg() {
    const char next = in_.Peek();
    if (next == '%') {
      TRY_ASSIGN(const ValueId id, ReadValue());
      return Arg(Ref{id});
    }
    if (next == '"') {
      TRY_ASSIGN(Name name, in_.Quoted());
      return Arg(std::move(name));
    }
    if (next == '[') return ReadList();
    if (in_.TakeWord("none")) return Arg(None{});
    if (in_.TakeWord("number")) return ReadNumber();
    if (in_.TakeWord("true")) return Arg(true);
    if (in_.TakeWord("false")) return Arg(false);
    if (in_.TakeWord("dtype")) {
      TRY_ASSIGN(const DType dtype, ReadDType());
      return Arg(DTypeArg{dtype});
    }
    if (in_.TakeWord("refs")) return ReadEmptyList(RefList{});
    if (in_.TakeWord("floats")) return ReadEmptyList(std::vector<double>());
    if (in_.TakeWord("bools")) return ReadEmptyList(std::vector<bool>());
    TRY_ASSIGN(auto value, in_.ReadDimOrDouble());
    return std::visit([](auto& v) { return Arg(std::move(v)); }, value);
  }

  Result<Arg> ReadNumber() {
    if (in_.TakeWord("true")) return Arg(Number{true});
    if (in_.TakeWord("false")) return Arg(Number{false});
    TRY_ASSIGN(auto value, in_.ReadDimOrDouble());
    return std::visit([](auto& v) { return Arg(Number{std::move(v)}); }, value);
  }

  Result<Arg> ReadEmptyList(Arg empty) {
    TRY(in_.Expect('['));
    TRY(in_.Expect(']'));
    return empty;
  }

  /// The first element says what the list holds.
  Result<Arg> ReadList() {
    TRY(in_.Expect('['));
    if (in_.Take(']')) return Arg(Dims());
    Scanner ahead = in_;
    if (in_.Peek() == '%' || ahead.TakeWord("none")) return ReadRefs();
    if (ahead.TakeWord("true") || ahead.TakeWord("false")) return ReadBools();
    TRY_ASSIGN(auto first, in_.ReadDimOrDouble());
    if (std::holds_alternative<double>(first)) return ReadRest<double>(std::get<double>(first));
    return ReadRest<Dim>(std::get<Dim>(std::move(first)));
  }

  Result<Arg> ReadRefs() {
    RefList list;
    do {
      if (in_.TakeWord("none")) {
        list.ids.push_back(kNoValue);
        continue;
      }
      TRY_ASSIGN(const ValueId id, ReadValue());
      list.ids.push_back(id);
    } while (in_.Take(',') && list.ids.size() < kListMax);
    TRY(in_.Expect(']'));
    return Arg(std::move(list));
  }

  Result<Arg> ReadBools() {
    std::vector<bool> list;
    do {
      const bool value = in_.TakeWord("true");
      if (!value) TRY(in_.ExpectWord("false"));
      list.push_back(value);
    } while (in_.Take(',') && list.size() < kListMax);
    TRY(in_.Expect(']'));
    return Arg(std::move(list));
  }

  template <typename T>
  Result<Arg> ReadRest(T first) {
    std::vector<T> list = {std::move(first)};
    while (in_.Take(',') && list.size() < kListMax) {
      const size_t at = in_.Here();
      TRY_ASSIGN(auto value, in_.ReadDimOrDouble());
      if (!std::holds_alternative<T>(value)) {
        return in_.FailAt(at, "a list holds either integers or numbers with point or exponent");
      }
      list.push_back(std::get<T>(std::move(value)));
    }
    TRY(in_.Expect(']'));
    return Arg(std::move(list));
  }

  Result<DType> ReadDType() {
    const size_t at = in_.Here();
    TRY_ASSIGN(const std::string name, in_.Word("an element type such as f32", false));
    const std::optional<DType> dtype = guards::DTypeFromName(name);
    if (!dtype) return in_.FailAt(at, "unknown element type '" + name + "'");
    return *dtype;
  }

  Result<Dims> ReadDims() {
    TRY(in_.Expect('['));
    Dims dims;
    if (in_.Take(']')) return dims;
    do {
      if (dims.size() == kRankMax) return in_.Expected("at most 64 dims");
      TRY_ASSIGN(Dim dim, in_.ReadDim());
      dims.push_back(std::move(dim));
    } while (in_.Take(','));
    TRY(in_.Expect(']'));
    return dims;
  }

  Result<Type> ReadType() {
    Type type;
    TRY_ASSIGN(type.dtype, ReadDType());
    const size_t at = in_.Here();
    TRY_ASSIGN(type.sizes, ReadDims());
    if (!HasModestProduct(type.sizes)) return in_.FailAt(at, "product of sizes is too long");
    if (in_.TakeWord("strides")) {
      TRY_ASSIGN(type.strides, ReadDims());
    } else {
      type.strides = guards::ContiguousStrides(type.sizes);
    }
    return type;
  }

  Result<ValueId> ReadValue() {
    const size_t at = in_.Here();
    TRY_ASSIGN(const std::string label, in_.Label());
    const auto value = values_.find(label);
    if (value == values_.end()) return in_.FailAt(at, "%" + label + " is not defined above");
    return value->second;
  }

  Status Define(size_t at, const std::string& label, ValueId id) {
    if (!values_.emplace(label, id).second) {
      return in_.FailAt(at, "%" + label + " is defined twice");
    }
    return {};
  }

  Scanner& in_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
  std::vector<size_t> node_offsets_;  ///< By NodeId.
};

}  // namespace

Result<Graph> Parse(std::string_view text) {
  if (text.size() > kTextBytesMax) {
    return Error(Code::kInvalid, fmt::format("1:1: text of {} bytes, at most {} are read", text.size(), kTextBytesMax));
  }
  Scanner in(text);
  return Parser(in).RunToEnd();
}

}  // namespace ingot::compiler
