// SPDX-License-Identifier: Apache-2.0
#include "client/archive/arguments.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <fmt/format.h>

#include <limits>

#include "client/archive/record_reader.h"

namespace ingot::client {
namespace {

using c10::IValue;
using c10::TypeKind;
using nlohmann::json;

Result<IValue> Named(const Scope& scope, const std::string& name) {
  const auto found = scope.find(name);
  if (found == scope.end()) return Error(Code::kCorrupt, fmt::format("uses '{}', which nothing made", name));
  return found->second;
}

Result<at::Tensor> TensorNamed(const json& argument, const Scope& scope) {
  TRY_ASSIGN(const IValue value, Named(scope, argument.at("name").get<std::string>()));
  if (!value.isTensor()) return Error(Code::kCorrupt, fmt::format("'{}' is no tensor", argument.at("name").dump()));
  return value.toTensor();
}

}  // namespace

Result<double> Float(const json& number) {
  if (number == "Infinity") return std::numeric_limits<double>::infinity();
  if (number == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (number == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (!number.is_number()) return Error(Code::kCorrupt, fmt::format("{} is no number", number.dump()));
  return number.get<double>();
}

namespace {

/// {"as_name": "s"} or {"as_int": 3} and its like.
Result<IValue> Symbolic(const json& argument, const Scope& scope) {
  if (argument.contains("as_name")) return Named(scope, argument.at("as_name").get<std::string>());
  if (argument.contains("as_int")) return IValue(argument.at("as_int").get<int64_t>());
  if (argument.contains("as_bool")) return IValue(argument.at("as_bool").get<bool>());
  TRY_ASSIGN(const double value, Float(argument.at("as_float")));
  return IValue(value);
}

Result<IValue> MemoryFormat(int64_t number) {
  constexpr at::MemoryFormat kFormats[] = {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                                           at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::Preserve};
  if (number < 1 || number > 4) return Error(Code::kUnsupported, fmt::format("memory format {}", number));
  return IValue(static_cast<int64_t>(kFormats[number - 1]));
}

Result<IValue> OptionalTensor(const json& argument, const Scope& scope) {
  if (!argument.contains("as_tensor")) return IValue();
  TRY_ASSIGN(const at::Tensor tensor, TensorNamed(argument.at("as_tensor"), scope));
  return IValue(tensor);
}

/// Each item read by `read`; an untyped list, which FitTo gives its type.
template <typename Fn>
Result<IValue> ListOf(const json& items, Fn read) {
  c10::impl::GenericList list(c10::AnyType::get());
  for (const json& item : items) {
    Result<IValue> value = read(item);
    if (!value) return std::move(value).error();
    list.push_back(*std::move(value));
  }
  return IValue(std::move(list));
}

Result<IValue> ReadList(const std::string& kind, const json& items, const Scope& scope) {
  if (!kind.ends_with("s") || !items.is_array()) {
    return Error(Code::kUnsupported, fmt::format("an argument of kind '{}'", kind));
  }
  if (kind == "as_tensors") {
    return ListOf(items, [&](const json& item) -> Result<IValue> {
      TRY_ASSIGN(const at::Tensor tensor, TensorNamed(item, scope));
      return IValue(tensor);
    });
  }
  if (kind == "as_optional_tensors") {
    return ListOf(items, [&](const json& item) { return OptionalTensor(item, scope); });
  }
  if (kind == "as_ints") {
    return ListOf(items, [](const json& i) -> Result<IValue> { return IValue(i.get<int64_t>()); });
  }
  if (kind == "as_bools") {
    return ListOf(items, [](const json& i) -> Result<IValue> { return IValue(i.get<bool>()); });
  }
  if (kind == "as_floats") {
    return ListOf(items, [](const json& item) -> Result<IValue> {
      TRY_ASSIGN(const double value, Float(item));
      return IValue(value);
    });
  }
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") {
    return ListOf(items, [&](const json& item) { return Symbolic(item, scope); });
  }
  return Error(Code::kUnsupported, fmt::format("an argument of kind '{}'", kind));
}

template <typename T, typename Fn>
Result<IValue> TypedList(const c10::impl::GenericList& items, Fn convert) {
  c10::List<T> list;
  for (const IValue& item : items) {
    std::optional<T> value = convert(item);
    if (!value) return Error(Code::kUnsupported, "a list with items of another kind");
    list.push_back(*std::move(value));
  }
  return IValue(std::move(list));
}

std::optional<double> AsFloat(const IValue& value) {
  if (value.isDouble()) return value.toDouble();
  if (value.isInt()) return static_cast<double>(value.toInt());
  return std::nullopt;
}
std::optional<int64_t> AsInt(const IValue& value) {
  if (value.isInt()) return value.toInt();
  return std::nullopt;
}
std::optional<bool> AsBool(const IValue& value) {
  if (value.isBool()) return value.toBool();
  return std::nullopt;
}
std::optional<at::Tensor> AsTensor(const IValue& value) {
  if (value.isTensor()) return value.toTensor();
  return std::nullopt;
}
std::optional<std::optional<at::Tensor>> AsMaybeTensor(const IValue& value) {
  if (value.isNone()) return std::optional<at::Tensor>();
  if (value.isTensor()) return std::optional<at::Tensor>(value.toTensor());
  return std::nullopt;
}

Result<IValue> FitList(const c10::TypePtr& element, const c10::impl::GenericList& items) {
  switch (element->kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType: return TypedList<int64_t>(items, AsInt);
    case TypeKind::FloatType: return TypedList<double>(items, AsFloat);
    case TypeKind::BoolType: return TypedList<bool>(items, AsBool);
    case TypeKind::TensorType: return TypedList<at::Tensor>(items, AsTensor);
    case TypeKind::OptionalType: {
      const auto inner = element->castRaw<c10::OptionalType>()->getElementType();
      if (inner->kind() == TypeKind::TensorType) return TypedList<std::optional<at::Tensor>>(items, AsMaybeTensor);
      break;
    }
    default: break;
  }
  return Error(Code::kUnsupported, fmt::format("a list of {}", element->str()));
}

Result<IValue> FitScalar(const c10::TypePtr& type, const IValue& value) {
  const bool is_number = value.isInt() || value.isDouble() || value.isBool();
  switch (type->kind()) {
    case TypeKind::TensorType:
      if (value.isTensor()) return value;
      if (is_number) {
        at::Tensor wrapped = c10::scalar_to_tensor(value.toScalar());
        wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
        return IValue(wrapped);
      }
      break;
    case TypeKind::FloatType:
      if (const auto number = AsFloat(value)) return IValue(*number);
      break;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
      if (value.isInt()) return value;
      break;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      if (value.isBool()) return value;
      break;
    case TypeKind::NumberType:
      if (is_number) return value;
      break;
    case TypeKind::StringType:
      if (value.isString()) return value;
      break;
    case TypeKind::DeviceObjType:
      if (value.isDevice()) return value;
      break;
    default: break;
  }
  return Error(Code::kUnsupported, fmt::format("takes {}, found {}", type->str(), value.tagKind()));
}

}  // namespace

Result<IValue> ReadArgument(const json& argument, const Scope& scope) {
  if (!argument.is_object() || argument.size() != 1) {
    return Error(Code::kCorrupt, "an argument that is not of one kind");
  }
  const std::string kind = argument.begin().key();
  const json& value = argument.begin().value();
  if (kind == "as_none") return IValue();
  if (kind == "as_int") return IValue(value.get<int64_t>());
  if (kind == "as_bool") return IValue(value.get<bool>());
  if (kind == "as_string") return IValue(value.get<std::string>());
  if (kind == "as_float") {
    TRY_ASSIGN(const double number, Float(value));
    return IValue(number);
  }
  if (kind == "as_tensor") {
    TRY_ASSIGN(const at::Tensor tensor, TensorNamed(value, scope));
    return IValue(tensor);
  }
  if (kind == "as_optional_tensor") return OptionalTensor(value, scope);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return Symbolic(value, scope);
  if (kind == "as_memory_format") return MemoryFormat(value.get<int64_t>());
  if (kind == "as_scalar_type") {
    const auto dtype = ScalarTypeFromArchive(value.get<int64_t>());
    if (!dtype) return Error(Code::kUnsupported, fmt::format("element type {}", value.dump()));
    return IValue(static_cast<int64_t>(*dtype));
  }
  if (kind == "as_layout") {
    if (value != 7) return Error(Code::kUnsupported, "a layout other than strided");
    return IValue(static_cast<int64_t>(at::Layout::Strided));
  }
  if (kind == "as_device") {
    if (value.at("type") != "cpu") return Error(Code::kUnsupported, fmt::format("device {}", value.at("type").dump()));
    return IValue(at::Device(at::kCPU));
  }
  return ReadList(kind, value, scope);
}

Result<IValue> FitTo(const c10::Argument& parameter, IValue value) {
  c10::TypePtr type = parameter.real_type();
  if (const auto* optional = type->castRaw<c10::OptionalType>()) {
    if (value.isNone()) return value;
    type = optional->getElementType();
  }
  if (const auto* list = type->castRaw<c10::ListType>()) {
    if (value.isList()) return FitList(list->getElementType(), value.toList());
    // `kernel_size=3` where the schema says int[2].
    c10::impl::GenericList repeated(c10::AnyType::get());
    for (int32_t i = 0; i < parameter.N().value_or(1); ++i) repeated.push_back(value);
    return FitList(list->getElementType(), repeated);
  }
  return FitScalar(type, value);
}

}  // namespace ingot::client
