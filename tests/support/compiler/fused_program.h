// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compiler/fusion/fuse.h"

namespace ingot::compiler {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

/// A graph, fused, with memory behind its values, run by the interpreter: what the tests of fusion share.
/// Nodes left to ATen are refused when it runs.
class FusedProgram {
 public:
  explicit FusedProgram(std::string_view text, std::vector<int64_t> symbols = {});

  const Fused& fused() const { return fused_; }
  const Graph& graph() const { return graph_; }
  size_t launches() const { return fused_.launches.size(); }
  size_t aten_steps() const { return fused_.steps.size() - fused_.launches.size(); }
  std::string KernelText() const;

  /// Logical elements of input `i`, row-major.
  void Set(size_t i, const Values& values);

  /// With `reshapes`, a contiguous reshape among the ATen steps is copied.
  Status Go(bool reshapes = false);

  Values Get(size_t output = 0);

 private:
  void Reshape(const Node& node);
  std::vector<size_t> Positions(ValueId id) const;
  /// A node that works in place gives its operand's memory back.
  char* Memory(ValueId id);

  std::vector<int64_t> symbols_;
  Graph graph_;
  Fused fused_;
  std::map<ValueId, std::vector<char>> memory_;
};

/// `n` numbers that f32 holds, no two neighbours alike.
Values Ramp(size_t n, double scale = 0.37, double shift = -1.3);

/// Rows of `n`.
Values SoftmaxOf(const Values& x, size_t n);

void ExpectNear(const Values& got, const Values& want, double tolerance = 1e-5);
void ExpectOneKernel(const FusedProgram& run);

}  // namespace ingot::compiler
