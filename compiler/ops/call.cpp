// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/call.h"

#include <cmath>

namespace ingot::compiler {

std::optional<std::vector<const Type*>> Call::TypesAt(size_t i) const {
  const RefList* list = Get<RefList>(i);
  if (!list || list->ids.empty()) return std::nullopt;
  std::vector<const Type*> types;
  for (const ValueId id : list->ids) {
    if (id == kNoValue) return std::nullopt;
    types.push_back(&graph_.type(id));
  }
  return types;
}

std::optional<Dim> Call::DimAt(size_t i) const {
  if (const Dim* dim = Get<Dim>(i)) return *dim;
  if (const Number* number = Get<Number>(i)) {
    if (const Dim* dim = std::get_if<Dim>(&number->value)) return *dim;
  }
  return std::nullopt;
}

std::optional<int64_t> Call::IntAt(size_t i) const {
  const std::optional<Dim> dim = DimAt(i);
  return dim ? Constant(*dim) : std::nullopt;
}

std::optional<int64_t> Call::Constant(const Dim& dim) const {
  if (dim.is_const()) return dim.const_value();
  misread_ = true;
  return std::nullopt;
}

std::optional<bool> Call::BoolAt(size_t i) const {
  if (const bool* value = Get<bool>(i)) return *value;
  const std::optional<int64_t> value = IntAt(i);
  if (value && (*value == 0 || *value == 1)) return *value == 1;
  return std::nullopt;
}

std::optional<Number> Call::ScalarAt(size_t i) const {
  if (const Number* number = Get<Number>(i)) return *number;
  if (const bool* value = Get<bool>(i)) return Number{*value};
  if (const Dim* value = Get<Dim>(i)) return Number{*value};
  if (const double* value = Get<double>(i)) return Number{*value};
  return std::nullopt;
}

std::optional<double> Call::FloatAt(size_t i) const {
  const std::optional<Number> number = ScalarAt(i);
  if (!number) return std::nullopt;
  if (const bool* flag = std::get_if<bool>(&number->value)) return *flag;
  if (const double* value = std::get_if<double>(&number->value)) return *value;
  const std::optional<int64_t> value = Constant(std::get<Dim>(number->value));
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::optional<DType> Call::DTypeAt(size_t i) const {
  const DTypeArg* arg = Get<DTypeArg>(i);
  if (!arg) return std::nullopt;
  return arg->dtype;
}

std::optional<std::string_view> Call::NameAt(size_t i) const {
  const Name* name = Get<Name>(i);
  if (!name) return std::nullopt;
  return std::string_view(*name);
}

std::optional<Dims> Call::DimsAt(size_t i) const {
  if (const Dims* dims = Get<Dims>(i)) return *dims;
  if (const std::optional<Dim> dim = DimAt(i)) return Dims{*dim};
  // An empty list in text and on the wire does not show what it is a list of.
  if (const RefList* list = Get<RefList>(i); list && list->ids.empty()) return Dims{};
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Call::IntsAt(size_t i) const {
  const std::optional<Dims> dims = DimsAt(i);
  if (!dims) return std::nullopt;
  std::vector<int64_t> values;
  for (const Dim& dim : *dims) {
    const std::optional<int64_t> value = Constant(dim);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

bool IsNumber(const Number& number, double value) {
  if (const bool* b = std::get_if<bool>(&number.value)) return (*b ? 1.0 : 0.0) == value;
  if (const Dim* d = std::get_if<Dim>(&number.value)) {
    return d->is_const() && static_cast<double>(d->const_value()) == value && !std::signbit(value);
  }
  const double found = std::get<double>(number.value);
  return found == value && std::signbit(found) == std::signbit(value);
}

DType DTypeOf(const Number& number) {
  if (std::holds_alternative<bool>(number.value)) return DType::kBool;
  return std::holds_alternative<Dim>(number.value) ? DType::kI64 : DType::kF32;
}

}  // namespace ingot::compiler
