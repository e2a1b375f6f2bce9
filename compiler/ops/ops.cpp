// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/ops.h"

#include <string>
#include <unordered_map>

#include "compiler/ops/infer.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/rules.h"

namespace ingot::compiler {
namespace {

constexpr bool kPureOp = true;
constexpr bool kImpure = false;
constexpr std::string_view kOwn;

using enum OpClass;
constexpr OpInfo kOps[] = {
#define OP(name, parameters, op_class, purity, ...) {name, parameters, op_class, purity, __VA_ARGS__},
#define INFER(rule) rule
#include "compiler/ops/ops.def"
};

/// Dropout and batch norm have effects only in training.
bool IsEvaluationForm(const Node& node) {
  static const OpTable<size_t> flags = [] {
    OpTable<size_t> table;
#define TRAINING(arg) , arg
#include "compiler/ops/ops.def"
    return table;
  }();
  const size_t* flag = flags.Of(node.op);
  const bool* training = flag && *flag < node.args.size() ? std::get_if<bool>(&node.args[*flag]) : nullptr;
  return training && !*training;
}

bool Divides(std::string_view op) {
  static const OpTable<bool> divisions = [] {
    OpTable<bool> table;
#define DIVIDES , true
#include "compiler/ops/ops.def"
    return table;
  }();
  return divisions.contains(op);
}

bool Raises(std::string_view op) {
  static const OpTable<bool> raisers = [] {
    OpTable<bool> table;
#define RAISES , true
#include "compiler/ops/ops.def"
    return table;
  }();
  return raisers.contains(op);
}

/// Whether PyTorch takes every value of one type for a number of another; float8 is told apart by nobody.
bool FitsInto(DType from, DType to) {
  if (from == to || from == DType::kBool || to == DType::kBool) return true;
  if (IsComplex(from) || IsComplex(to) || guards::IsFloat8(from) || guards::IsFloat8(to)) return false;
  if (IsFloat(from)) return IsFloat(to) && PromoteTypes(from, to) == to;
  // Of floats only f16 ends before 64 bits do.
  if (IsFloat(to)) return to != DType::kF16 || guards::SizeOf(from) < 2 || from == DType::kI16;
  return PromoteTypes(from, to) == to;
}

}  // namespace

std::string_view NameOf(OpClass op_class) {
  constexpr std::string_view kNames[] = {"pointwise",   "view",      "reduction", "gather", "shape",
                                         "contraction", "attention", "creation",  "random", "opaque"};
  return kNames[static_cast<uint8_t>(op_class)];
}

std::span<const OpInfo> AllOps() { return kOps; }

const OpInfo* FindOp(std::string_view name) {
  static const auto* const index = [] {
    auto* map = new std::unordered_map<std::string_view, const OpInfo*>;
    for (const OpInfo& op : kOps) map->emplace(op.name, &op);
    return map;
  }();
  const auto place = index->find(name);
  return place == index->end() ? nullptr : place->second;
}

OpClass ClassOf(const Node& node) {
  const OpInfo* op = FindOp(node.op);
  return op ? op->op_class : OpClass::kOpaque;
}

bool IsPure(const Node& node) {
  if (node.effects != kPure || node.inplace >= 0) return false;
  const OpInfo* op = FindOp(node.op);
  return !op || op->pure || IsEvaluationForm(node);
}

bool ChecksValues(const Graph& graph, const Node& node) {
  const OpInfo* op = FindOp(node.op);
  if (op == nullptr || op->op_class == OpClass::kGather || Raises(node.op)) return true;
  if (ChecksConversion(graph, node)) return true;
  return Divides(node.op) && node.results.size() == 1 && IsInteger(graph.value(node.results[0]).type.dtype);
}

bool ChecksConversion(const Graph& graph, const Node& node) {
  static const OpTable<size_t> converted = [] {
    OpTable<size_t> table;
#define CONVERTS(arg) , arg
#include "compiler/ops/ops.def"
    return table;
  }();
  const size_t* arg = converted.Of(node.op);
  const auto* ref = arg && *arg < node.args.size() ? std::get_if<Ref>(&node.args[*arg]) : nullptr;
  if (ref == nullptr || node.results.size() != 1) return false;
  return !FitsInto(graph.type(ref->id).dtype, graph.type(node.results[0]).dtype);
}

Answers AnswersOf(std::string_view op) {
  static const OpTable<Answers> answers = [] {
    using enum Answers;
    OpTable<Answers> table;
#define ANSWERS(by) , by
#include "compiler/ops/ops.def"
    return table;
  }();
  const Answers* by = answers.Of(op);
  return by == nullptr ? Answers::kNothing : *by;
}

bool MayCopy(std::string_view op) {
  static const OpTable<bool> copiers = [] {
    OpTable<bool> table;
#define MAY_COPY , true
#include "compiler/ops/ops.def"
    return table;
  }();
  return copiers.contains(op);
}

bool GivesBack(std::string_view op) {
  static const OpTable<bool> givers = [] {
    OpTable<bool> table;
#define GIVES_BACK , true
#include "compiler/ops/ops.def"
    return table;
  }();
  return givers.contains(op);
}

bool MayAlias(const Node& node) {
  switch (ClassOf(node)) {
    case OpClass::kView: return true;
    case OpClass::kOpaque:
      // A view that is not in the list would otherwise hide sharing from passes that write.
      return true;
    case OpClass::kPointwise: return GivesBack(node.op);
    default: return false;
  }
}

}  // namespace ingot::compiler
