// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/dim_arg.h"

#include "compiler/ops/op_table.h"

namespace ingot::compiler {

const DimArg* DimArgOf(std::string_view op) {
  static const OpTable<DimArg> args = [] {
    OpTable<DimArg> table;
#define DIM(...) \
  , DimArg { __VA_ARGS__ }
#include "compiler/ops/ops.def"
    return table;
  }();
  return args.Of(op);
}

}  // namespace ingot::compiler
