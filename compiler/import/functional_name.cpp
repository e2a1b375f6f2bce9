// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/functional_name.h"

#include <algorithm>

#include "compiler/ir/verify.h"
#include "compiler/ops/op_table.h"

namespace ingot::compiler {
namespace {

// Operators that change sizes, strides or storage of what they write, and those that have no functional form.
constexpr std::string_view kUnknown[] = {
    "fill_diagonal_",
    "_fill_mem_eff_dropout_mask_",
    "_sobol_engine_ff_",
    "_sobol_engine_scramble_",
    "_sobol_engine_initialize_state_",
    "requires_grad_",
    "empty.out",
    "normal.out",
    "bernoulli.float_out",
    "_add_relu.out",
    "t_",
    "transpose_",
    "unsqueeze_",
    "squeeze_",
    "squeeze_.dim",
    "squeeze_.dims",
    "swapaxes_",
    "swapdims_",
    "as_strided_",
    "resize_",
    "resize_as_",
    "set_",
    "set_.source_Tensor",
    "set_.source_Storage",
    "set_.source_Storage_storage_offset",
    "set_.source_Tensor_storage_offset",
    "set_data",
    "shallow_copy_data_",
    "rename_",
    "resize_as_sparse_",
};

/// The functional operator of each overload that writes and is not named after it.
class WrittenForms {
 public:
  WrittenForms() {
    WrittenForms& table = *this;
#define OUT(overload) , overload
#define ALSO(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
  }
  const std::string_view* Of(std::string_view name) const { return functional_.Of(name); }

 private:
  template <typename... Names>
  void Add([[maybe_unused]] std::string_view op, Names... overloads) {
    (functional_.Add(overloads, op), ...);
  }
  OpTable<std::string_view> functional_;
};

}  // namespace

std::optional<std::string> GraphOpName(std::string_view schema_name) {
  const size_t colons = schema_name.find("::");
  if (colons == std::string_view::npos) return std::nullopt;
  std::string op(schema_name);
  op.replace(colons, 2, ".");
  if (!IsOpName(op)) return std::nullopt;
  return op;
}

bool RunsInItsPlace(std::string_view op) { return op == "aten.fill_diagonal_"; }

std::optional<FunctionalForm> FindFunctionalForm(std::string_view op) {
  if (!op.starts_with("aten.")) return std::nullopt;
  const std::string_view name = op.substr(5);
  if (std::ranges::find(kUnknown, name) != std::end(kUnknown)) return std::nullopt;
  const size_t dot = name.find('.');
  static const WrittenForms forms;
  if (const std::string_view* functional = forms.Of(name)) {
    const bool is_in_place = name.substr(0, dot).ends_with('_');
    return FunctionalForm{std::string(*functional), is_in_place ? WriteStyle::kInPlace : WriteStyle::kOut};
  }
  const std::string base(name.substr(0, dot));
  const std::string_view overload = dot == name.npos ? "" : name.substr(dot + 1);
  if (base.size() > 1 && base.back() == '_' && !base.ends_with("__")) {
    const std::string tail = overload.empty() ? "" : "." + std::string(overload);
    return FunctionalForm{"aten." + base.substr(0, base.size() - 1) + tail, WriteStyle::kInPlace};
  }
  if (overload == "out") return FunctionalForm{"aten." + base, WriteStyle::kOut};
  if (overload.ends_with("_out")) {
    return FunctionalForm{"aten." + std::string(name.substr(0, name.size() - 4)), WriteStyle::kOut};
  }
  return std::nullopt;
}

}  // namespace ingot::compiler
