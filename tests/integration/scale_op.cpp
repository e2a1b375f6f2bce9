// SPDX-License-Identifier: Apache-2.0
// A custom operator as a user's library registers one; tests build it with two factors.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

at::Tensor Scale(const at::Tensor& x) { return x * INGOT_TEST_FACTOR; }

}  // namespace

TORCH_LIBRARY(ingot_test, m) { m.def("scale(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(ingot_test, CPU, m) { m.impl("scale", Scale); }
