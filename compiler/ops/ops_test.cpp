// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/ops.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "compiler/ops/op_table.h"

namespace ingot::compiler {
namespace {

using Names = OpTable<std::string_view>;

TEST(Ops, AreOtherNamesOfOperatorsThatAreThere) {
  const Names aliases = [] {
    Names table;
#define ALIAS(name) , name
#include "compiler/ops/ops.def"
    return table;
  }();
  const Names scalar_forms = [] {
    Names table;
#define SCALAR_FORM(name) , name
#include "compiler/ops/ops.def"
    return table;
  }();
  EXPECT_EQ(*aliases.Of("aten.swapaxes"), "aten.transpose.int");
  EXPECT_EQ(*scalar_forms.Of("aten.add.Scalar"), "aten.add.Tensor");
  EXPECT_EQ(aliases.Of("aten.add.Tensor"), nullptr);
  for (const Names* names : {&aliases, &scalar_forms}) {
    for (const auto& [from, to] : *names) {
      ASSERT_NE(FindOp(from), nullptr) << from;
      ASSERT_NE(FindOp(to), nullptr) << from << " is another name of " << to;
      EXPECT_EQ(FindOp(from)->op_class, FindOp(to)->op_class) << from;
      EXPECT_FALSE(aliases.contains(to)) << from << " leads to another name, " << to;
    }
  }
}

TEST(Ops, AreNotKnownWhereOneFacetIsAll) {
  std::vector<std::string_view> others;
#define OP(...)
#define OTHER(name, ...) others.push_back(name);
#include "compiler/ops/ops.def"
  EXPECT_FALSE(others.empty());
  for (const std::string_view op : others) EXPECT_EQ(FindOp(op), nullptr) << op;
}

}  // namespace
}  // namespace ingot::compiler
