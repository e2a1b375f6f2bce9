// SPDX-License-Identifier: Apache-2.0
#include "tests/support/compiler/fused_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/loop/interpret.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {

FusedProgram::FusedProgram(std::string_view text, std::vector<int64_t> symbols) : symbols_(std::move(symbols)) {
  auto graph = Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText();
  if (!graph) return;
  graph_ = std::move(*graph);
  auto fused = Fuse(graph_);
  EXPECT_TRUE(fused) << fused.error().ToText();
  if (fused) fused_ = std::move(*fused);
}

std::string FusedProgram::KernelText() const {
  std::string text;
  for (const auto& kernel : fused_.kernels) text += loop::Print(kernel);
  return text;
}

void FusedProgram::Set(size_t i, const Values& values) {
  const ValueId id = graph_.inputs[i].value;
  const std::vector<size_t> at = Positions(id);
  ASSERT_EQ(at.size(), values.size());
  char* memory = Memory(id);
  const DType dtype = graph_.type(id).dtype;
  for (size_t k = 0; k < at.size(); ++k) {
    const loop::Scalar value{values[k], static_cast<int64_t>(values[k])};
    loop::WriteElement(memory + at[k] * guards::SizeOf(dtype), dtype, value);
  }
}

Status FusedProgram::Go(bool reshapes) {
  for (const Fused::Step& step : fused_.steps) {
    if (!step.is_launch && reshapes && graph_.node(step.node).op == "aten.reshape") {
      Reshape(graph_.node(step.node));
      continue;
    }
    if (!step.is_launch) {
      return Error(Code::kUnsupported, "left to ATen: " + graph_.node(step.node).op);
    }
    const Launch& launch = fused_.launches[step.launch];
    const loop::Kernel& kernel = fused_.kernels[launch.kernel];
    std::vector<void*> buffers;
    for (ValueId id : launch.buffers) buffers.push_back(Memory(id));
    std::vector<int64_t> symbols;
    for (const Dim& dim : launch.symbols) symbols.push_back(dim.Eval(symbols_));
    const int64_t rows = guards::Product(kernel.rows).Eval(symbols);
    // In two halves, as two threads would.
    TRY(loop::Interpret(kernel, buffers, symbols, rows / 2, rows));
    TRY(loop::Interpret(kernel, buffers, symbols, 0, rows / 2));
  }
  return {};
}

Values FusedProgram::Get(size_t output) {
  const ValueId id = graph_.outputs[output];
  const DType dtype = graph_.type(id).dtype;
  Values values;
  for (size_t at : Positions(id)) {
    const loop::Scalar s = loop::ReadElement(Memory(id) + at * guards::SizeOf(dtype), dtype);
    values.push_back(guards::IsFloat(dtype) ? s.f : static_cast<double>(s.i));
  }
  return values;
}

void FusedProgram::Reshape(const Node& node) {
  const ValueId from = std::get<Ref>(node.args[0]).id, to = node.results[0];
  const std::vector<size_t> source = Positions(from), target = Positions(to);
  const size_t size = guards::SizeOf(graph_.type(to).dtype);
  for (size_t k = 0; k < source.size(); ++k) {
    std::memcpy(Memory(to) + target[k] * size, Memory(from) + source[k] * size, size);
  }
}

std::vector<size_t> FusedProgram::Positions(ValueId id) const {
  const Type& type = graph_.type(id);
  std::vector<size_t> at = {0};
  for (size_t d = 0; d < type.rank(); ++d) {
    std::vector<size_t> next;
    const int64_t size = type.sizes[d].Eval(symbols_), stride = type.strides[d].Eval(symbols_);
    for (size_t base : at) {
      for (int64_t i = 0; i < size; ++i) next.push_back(base + i * stride);
    }
    at = std::move(next);
  }
  return at;
}

char* FusedProgram::Memory(ValueId id) {
  for (NodeId def = graph_.value(id).def; def != kNoNode && graph_.node(def).inplace >= 0;) {
    id = std::get<Ref>(graph_.node(def).args[static_cast<size_t>(graph_.node(def).inplace)]).id;
    def = graph_.value(id).def;
  }
  auto& bytes = memory_[id];
  if (bytes.empty()) {
    size_t last = 0;
    for (size_t at : Positions(id)) last = std::max(last, at);
    bytes.resize((last + 1) * 16, '\x7f');
  }
  return bytes.data();
}

Values Ramp(size_t n, double scale, double shift) {
  Values v;
  for (size_t i = 0; i < n; ++i) v.push_back(std::fmod(scale * static_cast<double>(i * 7 % 31), 5) + shift);
  for (double& x : v) x = static_cast<float>(x);
  return v;
}

Values SoftmaxOf(const Values& x, size_t n) {
  Values y;
  for (size_t i = 0; i < x.size(); i += n) {
    double top = -kInf, sum = 0;
    for (size_t j = 0; j < n; ++j) top = std::max(top, x[i + j]);
    for (size_t j = 0; j < n; ++j) sum += std::exp(x[i + j] - top);
    for (size_t j = 0; j < n; ++j) y.push_back(std::exp(x[i + j] - top) / sum);
  }
  return y;
}

void ExpectNear(const Values& got, const Values& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else if (std::isinf(want[i])) {
      EXPECT_EQ(got[i], want[i]) << i;
    } else {
      EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::fabs(want[i]))) << i;
    }
  }
}

void ExpectOneKernel(const FusedProgram& run) {
  EXPECT_EQ(run.launches(), 1u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
}

}  // namespace ingot::compiler
