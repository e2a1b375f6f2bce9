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

}  // namespace
}  // namespace ingot::proto
