// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/graph_builder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/schema.h"

namespace ingot::compiler {
namespace {

Error Invalid(std::string_view op, std::string_view what) {
  return Error(Code::kInvalid, fmt::format("{}: {}", op, what));
}

/// Every tensor among the arguments is a value of the graph.
Status CheckValues(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.args.size(); ++i) {
    std::vector<ValueId> ids;
    if (const auto* ref = std::get_if<Ref>(&node.args[i])) ids = {ref->id};
    if (const auto* list = std::get_if<RefList>(&node.args[i])) {
      std::ranges::copy_if(list->ids, std::back_inserter(ids), [](ValueId id) { return id != kNoValue; });
    }
    for (const ValueId id : ids) {
      if (id >= graph.value_count()) {
        return Invalid(node.op, fmt::format("operand {} is no value of the graph", i));
      }
    }
  }
  return {};
}

/// Arguments as the schema has them, defaults filled in.
Status Complete(const Graph& graph, Node& node) {
  const std::vector<Parameter>* schema = FindSchema(node.op);
  if (!schema) return {};
  if (node.args.size() > schema->size()) {
    return Invalid(node.op, fmt::format("takes {} operands, not {}", schema->size(), node.args.size()));
  }
  for (size_t i = 0; i < schema->size(); ++i) {
    const Parameter& parameter = (*schema)[i];
    const std::string who = fmt::format("operand {} '{}'", i, parameter.name);
    if (i == node.args.size()) {
      if (!parameter.default_value) {
        return Invalid(node.op, fmt::format("{} is missing, expected {}", who, parameter.type));
      }
      node.args.push_back(*parameter.default_value);
      continue;
    }
    node.args[i] = parameter.Converted(std::move(node.args[i]));
    if (!parameter.Takes(node.args[i])) {
      return Invalid(node.op, fmt::format("{} is {}, expected {}", who, Describe(graph, node.args[i]), parameter.type));
    }
  }
  return {};
}

/// Eager's layout of a result that is no view; nothing where it takes more than the operands' layouts to tell.
std::optional<Dims> LayoutOf(const Graph& graph, const Node& node, const Inferred& result) {
  const OpClass op_class = ClassOf(node);
  if (op_class == OpClass::kOpaque || op_class == OpClass::kAttention) return std::nullopt;
  // These end with a permutation, or may.
  if (node.op == "aten.einsum" || node.op == "aten.lstm.input" || node.op == "aten.gru.input") return std::nullopt;
  const Dims contiguous = guards::ContiguousStrides(result.sizes);
  for (const Arg& arg : node.args) {
    const auto* name = std::get_if<Name>(&arg);
    if (name && *name == "contiguous_format") return contiguous;
    if (name && name->starts_with("channels_last")) return std::nullopt;
  }
  bool all_contiguous = true;
  bool all_alike = op_class == OpClass::kPointwise || node.op.ends_with("_like");
  const Type* like = nullptr;
  ForEachOperand(node, [&](ValueId id) {
    const Type& type = graph.type(id);
    all_contiguous &= type.IsContiguous();
    if (type.sizes != result.sizes) {
      // Only a single element has no say in the order of dims.
      all_alike &= type.rank() == 0;
    } else if (!like) {
      like = &type;
    } else {
      all_alike &= type.strides == like->strides;
    }
  });
  const bool is_product =
      node.op == "aten.mm" || node.op == "aten.bmm" || node.op == "aten.addmm" || node.op == "aten.baddbmm";
  if (all_contiguous || is_product) return contiguous;
  // Weights of linear are transposed as it likes.
  const auto* x = node.op == "aten.linear" ? std::get_if<Ref>(&node.args[0]) : nullptr;
  if (x && graph.type(x->id).IsContiguous()) return contiguous;
  // Gaps and overlaps are not kept, orders of dims are.
  if (all_alike && like && like->IsDense()) return like->strides;
  return std::nullopt;
}

}  // namespace

Result<Ref> GraphBuilder::Constant(std::string name, DType dtype, Dims sizes, std::string bytes) {
  Type type = Type::Contiguous(dtype, std::move(sizes));
  const std::optional<uint64_t> wanted = ConstantBytes(type);
  if (!wanted || *wanted != bytes.size()) {
    return Error(Code::kInvalid,
                 fmt::format("constant \"{}\" of {} has {} bytes, expected {}", name, Print(type), bytes.size(),
                             wanted ? std::to_string(*wanted) : "sizes that are numbers"));
  }
  return Ref{graph_.AddInput(InputKind::kConstant, std::move(name), std::move(type), std::move(bytes))};
}

Result<std::vector<Type>> GraphBuilder::TypesOf(const Node& node) const {
  const OpInfo* op = FindOp(node.op);
  if (!op || !op->infer) {
    return Error(Code::kUnsupported, fmt::format("{}: nobody infers its results, give their types", node.op));
  }
  std::string operands;
  for (const Arg& arg : node.args) operands += (operands.empty() ? "" : ", ") + Describe(graph_, arg);
  const std::optional<std::vector<Inferred>> results = Infer(graph_, node);
  if (!results) return Invalid(node.op, fmt::format("cannot take ({})", operands));
  std::vector<Type> types;
  for (const Inferred& result : *results) {
    std::optional<Dims> strides = result.strides ? result.strides : LayoutOf(graph_, node, result);
    if (!strides && otherwise_ == Layout::kContiguous) strides = guards::ContiguousStrides(result.sizes);
    if (!strides) {
      return Error(
          Code::kUnsupported,
          fmt::format("{}: the layout of its result does not follow from ({}), give the type", node.op, operands));
    }
    types.push_back({result.dtype, result.sizes, *std::move(strides)});
  }
  return types;
}

NodeId GraphBuilder::Add(Node node, std::vector<Type> types) {
  return before_ == kNoNode ? graph_.AddNode(std::move(node), std::move(types))
                            : graph_.InsertBefore(before_, std::move(node), std::move(types));
}

Result<NodeId> GraphBuilder::AddInferred(std::string_view op, std::vector<Arg> args, bool has_one) {
  Node node{std::string(op), std::move(args)};
  TRY(CheckValues(graph_, node));
  TRY(Complete(graph_, node));
  TRY_ASSIGN(std::vector<Type> types, TypesOf(node));
  if (has_one && types.size() != 1) return Invalid(op, fmt::format("has {} results, expected one", types.size()));
  // Of what is inferred, only batch_norm changes something other than the generator.
  if (!IsPure(node)) node.effects = node.op == "aten.batch_norm" ? kOpaque : kRandom;
  return Add(std::move(node), std::move(types));
}

Result<Ref> GraphBuilder::Op(std::string_view op, std::vector<Arg> args) {
  TRY_ASSIGN(const NodeId id, AddInferred(op, std::move(args), /*has_one=*/true));
  return Ref{graph_.node(id).results[0]};
}

Result<std::vector<Ref>> GraphBuilder::Ops(std::string_view op, std::vector<Arg> args) {
  TRY_ASSIGN(const NodeId id, AddInferred(op, std::move(args), /*has_one=*/false));
  std::vector<Ref> results;
  for (const ValueId result : graph_.node(id).results) results.push_back({result});
  return results;
}

Ref GraphBuilder::Typed(std::string op, std::vector<Arg> args, Type type) {
  const NodeId id = Add({std::move(op), std::move(args)}, {std::move(type)});
  return {graph_.node(id).results[0]};
}

}  // namespace ingot::compiler
