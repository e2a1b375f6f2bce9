// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/admitted_operator.h"

#include <ATen/core/enum_tag.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "client/lib/run/alias_marks.h"
#include "client/lib/run/believing_operator.h"
#include "proto/operator_space.h"

namespace ingot::client {
namespace {

using c10::TypeKind;
using proto::OperatorSpace;

/// The words of an argument, by its name, which means the same in all operators of PyTorch's.
struct Words {
  std::string_view argument;
  std::string_view known;  ///< between spaces
};
constexpr Words kWords[] = {
    {"approximate", "none tanh"},
    {"rounding_mode", "trunc floor"},
    {"reduce", "sum prod mean amax amin max min add multiply"},
    {"norm", "forward backward ortho"},
    {"ord", "fro nuc"},
    {"p", "fro nuc"},
    {"interpolation", "linear lower higher midpoint nearest"},
    {"driver", "gels gelsy gelsd gelss gesvd gesvdj gesvda"},
    {"mode", "constant reflect replicate circular reduced complete r"},
    {"pad_mode", "constant reflect replicate circular"},
    {"padding", "valid same"},
    {"padding_side", "left right"},
    {"side", "left right"},
    {"indexing", "ij xy"},
    {"UPLO", "L U l u"},
    {"reduce_op", "sum avg product min max band bor bxor"},
};
/// Of an argument that means something else than a word: einsum's formula; what an error says, which nothing reads.
constexpr std::string_view kFormula = "equation";
constexpr std::string_view kMessages[] = {"assert_msg", "api_name"};
constexpr std::string_view kGroup = "group_name";

/// They believe sizes, strides and offsets that they are given: PyTorch calls them with what it has checked.
constexpr std::string_view kUnchecked[] = {"_reshape_alias", "_reshape_alias_copy", "_nested_view_from_buffer",
                                           "_nested_view_from_buffer_copy"};

constexpr std::string_view kUnsafe = "unsafe";

const Words* WordsOf(std::string_view argument) {
  const auto* const found = std::ranges::find(kWords, argument, &Words::argument);
  return found == std::end(kWords) ? nullptr : found;
}

bool IsMessage(std::string_view argument) { return std::ranges::find(kMessages, argument) != std::end(kMessages); }

bool TakesKnownText(std::string_view argument, OperatorSpace space) {
  if (space == OperatorSpace::kCollective && argument == kGroup) return true;  // Bound to a slot of the plan's.
  return WordsOf(argument) != nullptr || argument == kFormula || IsMessage(argument);
}

bool IsText(const c10::Type& type) {
  // From PyTorch 2.15 on a reduction is its name or an object; objects nobody can give.
  return type.kind() == TypeKind::StringType || type.kind() == TypeKind::AnyType;
}

const c10::Type& WithoutOptional(const c10::Type& type) {
  return type.kind() == TypeKind::OptionalType ? *type.castRaw<c10::OptionalType>()->getElementType() : type;
}

/// Tensors, numbers and what is said of them.
bool IsPlain(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::TensorType:
    case TypeKind::NumberType:
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
    case TypeKind::ComplexType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
    case TypeKind::DeviceObjType: return true;
    case TypeKind::OptionalType: return IsPlain(*type.castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::ListType: return IsPlain(*type.castRaw<c10::ListType>()->getElementType());
    default: return false;
  }
}

bool Holds(const c10::Type& type, TypeKind kind) {
  if (type.kind() == kind) return true;
  return std::ranges::any_of(type.containedTypes(), [kind](const c10::TypePtr& inner) { return Holds(*inner, kind); });
}

std::string WhyNotTaken(const c10::Argument& argument, OperatorSpace space) {
  const c10::Type& type = *argument.real_type();
  const c10::Type& element = WithoutOptional(type);
  if (IsPlain(type)) return {};
  if (IsText(element)) {
    if (TakesKnownText(argument.name(), space)) return {};
    return fmt::format("takes text ('{}') that may be anything", argument.name());
  }
  // None is all that an archive or a plan can give.
  if (element.kind() == TypeKind::GeneratorType && &element != &type) return {};
  return fmt::format("takes a {} ('{}')", element.str(), argument.name());
}

/// A tensor that is written stays where and what it is, and is written by its elements alone.
std::string WhyNotWritten(const c10::OperatorHandle& op, OperatorSpace space) {
  const c10::FunctionSchema& schema = op.schema();
  bool writes = false, writes_one = false, takes_device = false;
  for (const c10::Argument& argument : schema.arguments()) {
    const bool is_written = IsWritten(argument.alias_info());
    writes |= is_written;
    writes_one |= is_written && !argument.is_out() && argument.real_type()->kind() == TypeKind::TensorType;
    takes_device |= WithoutOptional(*argument.real_type()).kind() == TypeKind::DeviceObjType;
  }
  if (!writes) return {};
  if (op.hasTag(at::Tag::inplace_view)) return "changes the sizes or the memory of a tensor that it is given";
  if (takes_device) return "makes other memory for a tensor that it is given";
  if (writes_one && schema.returns().empty()) return "changes a tensor that it is given, and gives nothing back";
  if (space == OperatorSpace::kBundled || schema.name().starts_with("prims::")) return "writes what it is given";
  return {};
}

/// They change nothing that a tensor computes, and are no step of anything.
bool MarksForAutograd(std::string_view base) {
  return base == "detach_" || base == "requires_grad_" || base == "retain_grad";
}

/// Numbers of numbers, as Ingot follows them.
bool AsksNumbers(std::string_view base) {
  return base == "_assert_scalar" || base.starts_with("sym_constrain_range") || base == "result_type" ||
         base == "can_cast" || base == "promote_types";
}

std::string WhyNotComputed(const c10::OperatorHandle& op, OperatorSpace space) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string_view full = schema.name(), base = full.substr(full.find("::") + 2);
  if (MarksForAutograd(base)) return {};
  if (std::ranges::find(kUnchecked, base) != std::end(kUnchecked)) return "checks no bounds of what it is given";
  for (const c10::Argument& argument : schema.arguments()) {
    if (std::string why = WhyNotTaken(argument, space); !why.empty()) return why;
  }
  bool has_tensor = false;
  for (const auto* part : {&schema.arguments(), &schema.returns()}) {
    for (const c10::Argument& one : *part) has_tensor |= Holds(*one.real_type(), TypeKind::TensorType);
  }
  if (!has_tensor && !AsksNumbers(base)) return "neither takes a tensor nor makes one";
  for (const c10::Argument& result : schema.returns()) {
    if (!IsPlain(*result.real_type())) return fmt::format("makes a {}", result.real_type()->str());
  }
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return "has no kernel for dense tensors of the CPU";
  return WhyNotWritten(op, space);
}

constexpr std::string_view kInner = "belongs to the inner workings of PyTorch";

Error Refused(const std::string& name, std::string_view why) {
  return Error(Code::kUnsupported, fmt::format("operator {} {}: a file or a recording may not name it, and it is not "
                                               "run; call it outside of what is compiled",
                                               name, why));
}

}  // namespace

std::string WhyNotAdmitted(const c10::OperatorHandle& op, NamedBy by) {
  const OperatorSpace space = proto::OperatorSpaceOf(op.schema().name());
  if (!proto::IsAdmitted(space)) return std::string(kInner);
  if (space == OperatorSpace::kCore) {
    std::string why = WhyNotComputed(op, space);
    return why.empty() && by == NamedBy::kArchive ? std::string(WhyBelieving(op)) : why;
  }
  if (by == NamedBy::kArchive) return "is none of aten or prims";
  // What a library has registered is as much the process's own code as what it calls by itself.
  return space == OperatorSpace::kForeign ? std::string() : WhyNotComputed(op, space);
}

Status CheckAdmitted(const std::string& name) {
  if (proto::IsAdmitted(proto::OperatorSpaceOf(name))) return {};
  return Refused(name, kInner);
}

Status CheckAdmitted(const c10::OperatorHandle& op, NamedBy by) {
  const std::string why = WhyNotAdmitted(op, by);
  if (why.empty()) return {};
  return Refused(c10::toString(op.operator_name()), why);
}

bool IsKnownText(std::string_view argument, std::string_view text) {
  if (IsMessage(argument)) return true;
  if (argument == kFormula) {
    return std::ranges::all_of(text, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             std::string_view(" ,.->").find(c) != std::string_view::npos;
    });
  }
  const Words* words = WordsOf(argument);
  if (words == nullptr || text.empty() || text.find(' ') != text.npos) return false;
  const std::string padded = fmt::format(" {} ", words->known);
  // Some are taken in capitals as well ("GELSY").
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return padded.find(fmt::format(" {} ", lower)) != std::string::npos;
}

Status CheckGiven(const c10::OperatorHandle& op, size_t argument, const c10::IValue& value) {
  if (!value.isString() && !value.isDevice() && !value.isBool()) return {};  // Nearly all are numbers and tensors.
  if (proto::OperatorSpaceOf(op.schema().name()) == OperatorSpace::kForeign) return {};
  const std::string& name = op.schema().arguments()[argument].name();
  const auto refused = [&](const std::string& what) {
    return Error(Code::kUnsupported,
                 fmt::format("operator {}: argument '{}' {}", c10::toString(op.operator_name()), name, what));
  };
  if (value.isString() && !IsKnownText(name, value.toStringRef())) {
    return refused(fmt::format("may not be '{}'", value.toStringRef()));
  }
  if (value.isDevice() && !value.toDevice().is_cpu()) return refused("may be no other device than the CPU");
  if (value.isBool() && value.toBool() && name == kUnsafe) return refused("may not be true");
  return {};
}

}  // namespace ingot::client
