// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/schema.h"

#include <gtest/gtest.h>

#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

TEST(Schema, IsThereForEveryOperatorOfPyTorch) {
  for (const OpInfo& op : AllOps()) {
    const bool is_own = op.name.starts_with("ingot.") || op.name.starts_with("guard.");
    EXPECT_EQ(FindSchema(op.name) != nullptr, !is_own) << op.name;
  }
  EXPECT_EQ(FindSchema("aten.no_such"), nullptr);
}

TEST(Schema, TakesItsOwnDefaults) {
  for (const OpInfo& op : AllOps()) {
    const std::vector<Parameter>* schema = FindSchema(op.name);
    if (!schema) continue;
    for (const Parameter& parameter : *schema) {
      EXPECT_FALSE(parameter.name.empty()) << op.name;
      if (parameter.default_value) {
        EXPECT_TRUE(parameter.Takes(*parameter.default_value)) << op.name << " " << parameter.name;
      }
    }
  }
}

TEST(Schema, ReadsDefaults) {
  const auto& conv = *FindSchema("aten.conv2d");
  ASSERT_EQ(conv.size(), 7u);
  EXPECT_EQ(conv[2].name, "bias");
  EXPECT_TRUE(conv[2].may_be_none);
  EXPECT_EQ(conv[2].default_value, Arg(None{}));
  EXPECT_EQ(conv[3].default_value, Arg(Dims{1, 1}));
  EXPECT_EQ(conv[6].default_value, Arg(Dim(1)));
  const auto& pool = *FindSchema("aten.avg_pool2d");
  EXPECT_EQ(pool[1].default_value, std::nullopt);
  EXPECT_EQ(pool[2].default_value, Arg(Dims()));
  EXPECT_EQ(pool[3].default_value, Arg(Dims{0, 0})) << "one integer for both dims";
  EXPECT_EQ(pool[5].default_value, Arg(true));
  EXPECT_EQ((*FindSchema("aten.gelu"))[1].default_value, Arg(Name("none")));
  EXPECT_EQ((*FindSchema("aten.layer_norm"))[4].default_value, Arg(1e-5));
  EXPECT_EQ((*FindSchema("aten.contiguous"))[1].default_value, Arg(Name("contiguous_format")));
}

TEST(Schema, ConvertsAsPyTorchDoes) {
  const auto& add = *FindSchema("aten.add.Tensor");
  EXPECT_EQ(add[1].Converted(2.0), Arg(Number{2.0}));
  EXPECT_EQ(add[2].Converted(2.0), Arg(2.0));
  EXPECT_EQ((*FindSchema("aten.sum.dim_IntList"))[1].Converted(Dim(-1)), Arg(Dims{-1}));
  EXPECT_EQ((*FindSchema("aten.dropout"))[1].Converted(Dim(1)), Arg(1.0));
  EXPECT_FALSE(add[0].Takes(Dims{1}));
}

}  // namespace
}  // namespace ingot::compiler
