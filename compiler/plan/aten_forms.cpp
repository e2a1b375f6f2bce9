// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/aten_forms.h"

#include "compiler/ops/op_table.h"

namespace ingot::compiler {
std::string DispatcherName(std::string_view op) {
  const size_t dot = op.find('.');
  if (dot == std::string_view::npos) return std::string(op);
  return std::string(op.substr(0, dot)) + "::" + std::string(op.substr(dot + 1));
}

std::string_view OutForm(std::string_view op) {
  static const OpTable<std::string_view> forms = [] {
    OpTable<std::string_view> table;
#define OUT(overload) , "aten::" overload
#include "compiler/ops/ops.def"
    return table;
  }();
  const std::string_view* form = forms.Of(op);
  return form ? *form : std::string_view();
}

bool HasDynamicShape(std::string_view op) {
  static const OpTable<bool> data_sized = [] {
    OpTable<bool> table;
#define DATA_SIZED , true
#include "compiler/ops/ops.def"
    return table;
  }();
  return data_sized.contains(op);
}

bool IsUnwritten(std::string_view op) {
  static const OpTable<bool> unwritten = [] {
    OpTable<bool> table;
#define UNWRITTEN , true
#include "compiler/ops/ops.def"
    return table;
  }();
  return unwritten.contains(op);
}

}  // namespace ingot::compiler
