// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot::compiler {

/// result[b, m, n] = silu(sum over k of left[b, m, k] * right[b, n, k] + bias[n]), of bf16 or of 8 bit integers.
struct ProductShape {
  int64_t batches = 1, rows = 16, columns = 16, depth = 32;
  std::string_view left = "bf16", right = "bf16";
  bool right_is_transposed = true;  ///< right[n, k] rather than right[k, n]
  int64_t row_gap = 0;              ///< elements between rows of the left operand that belong to none

  bool is_integer() const { return left == "i8" || left == "u8"; }
};

inline std::string TextOf(const ProductShape& s) {
  const std::string_view sum = s.is_integer() ? "i32" : "f32";
  const int64_t stride = s.depth + s.row_gap;
  std::string text = fmt::format(
      "kernel product symbols 0 {{\n  param p0: in {}[{}]\n  param p1: in {}[{}]\n  param p2: in {}[{}]\n"
      "  param p3: out {}[{}]\n  buffer b0: {}[{}]\n  rows [{}, {}]\n  contract [{}, {}] into b0 {{\n",
      s.left, s.batches * s.rows * stride, s.right, s.batches * s.columns * s.depth, sum, s.columns,
      s.is_integer() ? "i32" : "bf16", s.batches * s.rows * s.columns, sum, s.columns, s.batches, s.rows, s.columns,
      s.depth);
  text += fmt::format("    %0 = load p0 [{}*i0 + {}*i1 + k] : {}\n    %1 = cast %0 : {}\n", s.rows * stride, stride,
                      s.left, sum);
  text += fmt::format(
      "    %2 = load p1 [{}*i0 + {}] : {}\n    %3 = cast %2 : {}\n    %4 = reduce_dot %1, %3 : {}\n  }}\n",
      s.columns * s.depth,
      s.right_is_transposed ? fmt::format("{}*j + k", s.depth) : fmt::format("j + {}*k", s.columns), s.right, sum, sum);
  text +=
      fmt::format("  loop [{}] {{\n    %5 = load b0 [j] : {}\n    %6 = load p2 [j] : {}\n    %7 = add %5, %6 : {}\n",
                  s.columns, sum, sum, sum);
  if (!s.is_integer()) text += "    %8 = sigmoid %7 : f32\n    %9 = mul %7, %8 : f32\n    %10 = cast %9 : bf16\n";
  text += fmt::format("    store p3 [{}*i0 + {}*i1 + j] = %{}\n  }}\n}}\n", s.rows * s.columns, s.columns,
                      s.is_integer() ? 7 : 10);
  return text;
}

}  // namespace ingot::compiler
