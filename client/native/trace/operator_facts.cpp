// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/operator_facts.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "client/lib/run/admitted_operator.h"
#include "client/lib/run/alias_marks.h"
#include "proto/operator_space.h"

namespace ingot::client {
namespace {

using c10::TypeKind;
using proto::OperatorSpace;

ArgRole RoleOf(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  switch (type->kind()) {
    case TypeKind::ScalarTypeType: return ArgRole::kDType;
    case TypeKind::LayoutType: return ArgRole::kLayout;
    case TypeKind::MemoryFormatType: return ArgRole::kMemoryFormat;
    default: return ArgRole::kPlain;
  }
}

bool IsAliasOnly(const c10::AliasInfo* alias) {
  if (alias == nullptr || IsWritten(alias)) return false;
  if (!alias->beforeSets().empty()) return true;
  for (const c10::AliasInfo& inner : alias->containedTypes()) {
    if (IsAliasOnly(&inner)) return true;
  }
  return false;
}

/// Whether an operator says what the guards of a call's tensors hold, and nothing else: not where in its memory a
/// tensor begins, nor whether an operator made it.
bool TouchesNoElements(std::string_view name) {
  static const std::unordered_set<std::string_view> kNames = {
      "is_floating_point", "is_complex", "is_signed", "is_same_size", "is_inference", "is_conj", "is_neg",
      "is_contiguous", "size", "stride", "numel", "dim", "sym_size", "sym_stride", "sym_numel", "result_type",
      "can_cast", "promote_types",
      // Autograd's own marks; a recording that could tell the difference is refused.
      "detach_", "requires_grad_", "retain_grad"};
  return kNames.contains(name);
}

// The functional forms of torch.distributed's collectives, and the wait for them.
bool IsRecordedCollective(std::string_view base) {
  static const std::unordered_set<std::string_view> kNames = {"all_reduce",
                                                              "all_reduce_coalesced",
                                                              "all_gather_into_tensor",
                                                              "all_gather_into_tensor_coalesced",
                                                              "reduce_scatter_tensor",
                                                              "reduce_scatter_tensor_coalesced",
                                                              "all_to_all_single",
                                                              "broadcast",
                                                              "wait_tensor"};
  return kNames.contains(base);
}

}  // namespace

OperatorFacts FactsOf(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OperatorFacts facts;
  facts.name = schema.name();
  if (!schema.overload_name().empty()) facts.name += "." + schema.overload_name();

  const std::string_view full = schema.name();
  const size_t colons = full.find("::");
  const OperatorSpace space = proto::OperatorSpaceOf(full);
  const std::string_view base = colons == full.npos ? full : full.substr(colons + 2);
  const bool is_core = space == OperatorSpace::kCore;
  facts.is_opaque = !is_core;
  facts.is_quiet = space == OperatorSpace::kProfiler || (is_core && TouchesNoElements(base));
  const bool is_collective = space == OperatorSpace::kCollective && IsRecordedCollective(base);
  facts.is_refused_communication =
      space == OperatorSpace::kCommunication || (space == OperatorSpace::kCollective && !is_collective);
  if (!facts.is_quiet) facts.why_not_admitted = WhyNotAdmitted(op, NamedBy::kPlan);
  facts.is_lift = is_core && base == "lift_fresh";
  facts.is_random = op.hasTag(at::Tag::nondeterministic_seeded);
  facts.is_dynamic_shape = op.hasTag(at::Tag::dynamic_output_shape);

  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_group = is_collective && arguments[i].name() == "group_name";
    facts.roles.push_back(is_group ? ArgRole::kGroup : RoleOf(arguments[i]));
    if (IsWritten(arguments[i].alias_info())) facts.writes.push_back(static_cast<uint8_t>(i));
    const std::string& name = arguments[i].name();
    if (is_core && (name == "train" || name == "training" || name == "dropout_p")) {
      facts.random_switch = static_cast<uint8_t>(i);
    }
  }
  for (const c10::Argument& result : schema.returns()) {
    facts.is_view |= IsAliasOnly(result.alias_info());
  }
  return facts;
}

bool UsesGenerator(const OperatorFacts& facts, c10::ArrayRef<c10::IValue> args) {
  if (!facts.is_random || !facts.random_switch.has_value()) return facts.is_random;
  const c10::IValue& value = args[*facts.random_switch];
  if (value.isBool()) return value.toBool();
  if (value.isDouble()) return value.toDouble() != 0.0;
  return true;
}

}  // namespace ingot::client
