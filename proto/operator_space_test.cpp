// SPDX-License-Identifier: Apache-2.0
#include "proto/operator_space.h"

#include <gtest/gtest.h>

namespace ingot::proto {
namespace {

TEST(OperatorSpace, IsThatOfTheWholeNamespace) {
  EXPECT_EQ(OperatorSpaceOf("aten::add.Tensor"), OperatorSpace::kCore);
  EXPECT_EQ(OperatorSpaceOf("aten.add.Tensor"), OperatorSpace::kCore);
  EXPECT_EQ(OperatorSpaceOf("_c10d_functional::wait_tensor"), OperatorSpace::kCollective);
  EXPECT_EQ(OperatorSpaceOf("_c10d_functional_autograd.all_to_all_single"), OperatorSpace::kCommunication);
  EXPECT_EQ(OperatorSpaceOf("quantized::dropout"), OperatorSpace::kBundled);
  for (const char* op : {"aten2::add", "at::add", "my.aten::add", "aten_", "", "::aten"}) {
    EXPECT_EQ(OperatorSpaceOf(op), OperatorSpace::kForeign) << op;
  }
}

TEST(OperatorSpace, IsAdmittedOrNot) {
  for (const char* op : {"aten::add", "prims::add", "quantized::add", "_c10d_functional::broadcast", "a_library::op"}) {
    EXPECT_TRUE(IsAdmitted(OperatorSpaceOf(op))) << op;
  }
  for (const char* op : {"inductor::_alloc_from_pool", "c10d::send", "profiler::_record_function_exit",
                         "ingot_client::own_rows", "debugprims::load_tensor"}) {
    EXPECT_FALSE(IsAdmitted(OperatorSpaceOf(op))) << op;
  }
}

TEST(OperatorSpace, HasNamesOfTwoWords) {
  for (const char* op : {"aten::add", "aten::add.Tensor", "_a1::__and__.Scalar_out"})
    EXPECT_TRUE(IsOperatorName(op)) << op;
  for (const char* op : {"", "add", "::add", "aten::", "aten::add.", "aten::.Tensor", "aten::a.b.c", "aten:: add",
                         "a/b::c", "aten::add\n", "aten.add"}) {
    EXPECT_FALSE(IsOperatorName(op)) << op;
  }
}

}  // namespace
}  // namespace ingot::proto
