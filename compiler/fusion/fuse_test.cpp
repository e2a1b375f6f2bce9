// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/fuse.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/loop/interpret.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

/// A graph, fused, with memory behind its values; nodes left to ATen are refused.
class Program {
 public:
  explicit Program(std::string_view text, std::vector<int64_t> symbols = {}) : symbols_(std::move(symbols)) {
    auto graph = Parse(text);
    EXPECT_TRUE(graph) << graph.error().ToText();
    if (!graph) return;
    graph_ = std::move(*graph);
    auto fused = Fuse(graph_);
    EXPECT_TRUE(fused) << fused.error().ToText();
    if (fused) fused_ = std::move(*fused);
  }

  const Fused& fused() const { return fused_; }
  const Graph& graph() const { return graph_; }
  size_t launches() const { return fused_.launches.size(); }
  size_t aten_steps() const { return fused_.steps.size() - fused_.launches.size(); }
  std::string KernelText() const {
    std::string text;
    for (const auto& kernel : fused_.kernels) text += loop::Print(kernel);
    return text;
  }

  /// Logical elements of input `i`, row-major.
  void Set(size_t i, const Values& values) {
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

  /// With `reshapes`, a contiguous reshape among the ATen steps is copied.
  Status Go(bool reshapes = false) {
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

  Values Get(size_t output = 0) {
    const ValueId id = graph_.outputs[output];
    const DType dtype = graph_.type(id).dtype;
    Values values;
    for (size_t at : Positions(id)) {
      const loop::Scalar s = loop::ReadElement(Memory(id) + at * guards::SizeOf(dtype), dtype);
      values.push_back(guards::IsFloat(dtype) ? s.f : static_cast<double>(s.i));
    }
    return values;
  }

 private:
  void Reshape(const Node& node) {
    const ValueId from = std::get<Ref>(node.args[0]).id, to = node.results[0];
    const std::vector<size_t> source = Positions(from), target = Positions(to);
    const size_t size = guards::SizeOf(graph_.type(to).dtype);
    for (size_t k = 0; k < source.size(); ++k) {
      std::memcpy(Memory(to) + target[k] * size, Memory(from) + source[k] * size, size);
    }
  }
  std::vector<size_t> Positions(ValueId id) const {
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
  /// A node that works in place gives its operand's memory back.
  char* Memory(ValueId id) {
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

  std::vector<int64_t> symbols_;
  Graph graph_;
  Fused fused_;
  std::map<ValueId, std::vector<char>> memory_;
};

Values Ramp(size_t n, double scale = 0.37, double shift = -1.3) {
  Values v;
  for (size_t i = 0; i < n; ++i) v.push_back(std::fmod(scale * static_cast<double>(i * 7 % 31), 5) + shift);
  for (double& x : v) x = static_cast<float>(x);
  return v;
}

void ExpectNear(const Values& got, const Values& want, double tolerance = 1e-5) {
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

void ExpectOneKernel(const Program& run) {
  EXPECT_EQ(run.launches(), 1u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
}

TEST(Fuse, HandWrittenRmsNormIsOneKernel) {
  Program run(R"(graph @f(%x: bf16[s0, 6], %w: bf16[6]) symbols(s0 = %x.dim(0)) {
  %0 = aten.to.dtype(%x, dtype f32, false, false, none) : f32[s0, 6]
  %1 = aten.pow.Tensor_Scalar(%0, 2) : f32[s0, 6]
  %2 = aten.mean.dim(%1, [-1], true, none) : f32[s0, 1]
  %3 = aten.add.Tensor(%2, number 1e-6, 1) : f32[s0, 1]
  %4 = aten.rsqrt(%3) : f32[s0, 1]
  %5 = aten.mul.Tensor(%0, %4) : f32[s0, 6]
  %6 = aten.to.dtype(%5, dtype bf16, false, false, none) : bf16[s0, 6]
  %7 = aten.mul.Tensor(%w, %6) : bf16[s0, 6]
  return %7
})",
              {4});
  ExpectOneKernel(run);
  const Values x = Ramp(24), w = Ramp(6, 0.2, 0.5);
  run.Set(0, x);
  run.Set(1, w);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values want;
  for (int i = 0; i < 4; ++i) {
    double sum = 0;
    for (int j = 0; j < 6; ++j) sum += x[i * 6 + j] * x[i * 6 + j];
    for (int j = 0; j < 6; ++j) want.push_back(x[i * 6 + j] / std::sqrt(sum / 6 + 1e-6) * w[j]);
  }
  ExpectNear(run.Get(), want, 0.02);
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

TEST(Fuse, MaskedSoftmaxIsOneKernel) {
  Program run(R"(graph @f(%x: f32[2, 3, 5], %m: bool[3, 5]) {
  %0 = aten.mul.Tensor(%x, number 0.5) : f32[2, 3, 5]
  %1 = aten.masked_fill.Scalar(%0, %m, number -inf) : f32[2, 3, 5]
  %2 = aten.softmax.int(%1, -1, none) : f32[2, 3, 5]
  return %2
})");
  ExpectOneKernel(run);
  Values x = Ramp(30), masked, m(15, 0);
  m[2] = m[7] = 1;
  run.Set(0, x);
  run.Set(1, m);
  ASSERT_TRUE(run.Go());
  for (size_t i = 0; i < 30; ++i) masked.push_back(m[i % 15] ? -kInf : x[i] * 0.5);
  ExpectNear(run.Get(), SoftmaxOf(masked, 5));
}

TEST(Fuse, SoftmaxOfRowsWithNanOrNothingIsNan) {
  for (const char* op : {"softmax", "log_softmax"}) {
    Program run(fmt::format(R"(graph @f(%x: f32[4, 5]) {{
  %0 = aten.{}.int(%x, -1, none) : f32[4, 5]
  return %0
}})",
                            op));
    Values x = Ramp(20);
    x[3] = std::numeric_limits<double>::quiet_NaN();
    for (size_t j = 5; j < 10; ++j) x[j] = -kInf;
    x[12] = kInf;
    run.Set(0, x);
    ASSERT_TRUE(run.Go());
    const Values y = run.Get();
    for (size_t i = 0; i < 10; ++i) EXPECT_TRUE(std::isnan(y[i])) << op << i;
    EXPECT_TRUE(std::isnan(y[12])) << op;
    for (size_t i = 15; i < 20; ++i) EXPECT_TRUE(std::isfinite(y[i])) << op << i;
  }
}

TEST(Fuse, ReshapesOfNothingDivideByNoSize) {
  Program run(R"(graph @f(%x: f32[5, 0]) {
  %0 = aten.view(%x, [0]) : f32[0]
  %1 = aten.add.Tensor(%0, 1, 1) : f32[0]
  %2 = aten.view(%x, [0, 5]) : f32[0, 5]
  %3 = aten.add.Tensor(%2, 1, 1) : f32[0, 5]
  return %1, %3
})");
  EXPECT_EQ(run.launches(), 2u);
}

// As torch computes: numbers and tensors of rank 0 take the type of the result first, but for the
// factors of products; a scaled sum is rounded once.
TEST(Fuse, NarrowOperandsAreRoundedWhereTorchRoundsThem) {
  Program run(R"(graph @f(%x: bf16[1], %y: bf16[1], %i: i64[1]) {
  %0 = aten.add.Tensor(%x, 0.7, 1) : bf16[1]
  %1 = aten.mul.Tensor(%x, 0.7) : bf16[1]
  %2 = aten.eq.Tensor(%y, 0.7) : bool[1]
  %3 = aten.mul.Tensor(%x, %i) : bf16[1]
  %4 = aten.div.Tensor_mode(%i, %y, "trunc") : bf16[1]
  %5 = aten.pow.Scalar(0.7, %x) : bf16[1]
  return %0, %1, %2, %3, %4, %5
})");
  constexpr double kNear = 0.69921875;  // 0.7 in bf16
  run.Set(0, {-1.7578125});
  run.Set(1, {kNear});
  run.Set(2, {2057});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(0), Values{-1.0625});
  EXPECT_EQ(run.Get(1), Values{-1.234375});
  EXPECT_EQ(run.Get(2), Values{1});
  EXPECT_EQ(run.Get(3), Values{-3632});
  EXPECT_EQ(run.Get(4), Values{2944});
  EXPECT_NEAR(run.Get(5)[0], std::pow(kNear, -1.7578125), 0.008);
}

TEST(Fuse, SoftmaxAlongAnOuterDim) {
  Program run(R"(graph @f(%x: f32[2, 4, 3]) {
  %0 = aten.softmax.int(%x, 1, none) : f32[2, 4, 3]
  return %0
})");
  ExpectOneKernel(run);
  const Values x = Ramp(24);
  run.Set(0, x);
  ASSERT_TRUE(run.Go());
  Values want(24);
  for (size_t b = 0; b < 2; ++b) {
    for (size_t k = 0; k < 3; ++k) {
      Values column;
      for (size_t s = 0; s < 4; ++s) column.push_back(x[b * 12 + s * 3 + k]);
      const Values soft = SoftmaxOf(column, 4);
      for (size_t s = 0; s < 4; ++s) want[b * 12 + s * 3 + k] = soft[s];
    }
  }
  ExpectNear(run.Get(), want);
}

Values LayerNormOf(const Values& x, const Values& w, const Values& b) {
  Values y;
  const size_t n = w.size();
  for (size_t i = 0; i < x.size(); i += n) {
    double mean = 0, var = 0;
    for (size_t j = 0; j < n; ++j) mean += x[i + j] / n;
    for (size_t j = 0; j < n; ++j) var += (x[i + j] - mean) * (x[i + j] - mean) / n;
    for (size_t j = 0; j < n; ++j) {
      y.push_back((x[i + j] - mean) / std::sqrt(var + 1e-5) * w[j] + b[j]);
    }
  }
  return y;
}

TEST(Fuse, ResidualAddAndLayerNormAreOneKernelWithTwoResults) {
  Program run(R"(graph @f(%x: f32[s0, s1, 8], %r: f32[s0, s1, 8], %w: f32[8], %b: f32[8])
      symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
  %0 = aten.add.Tensor(%x, %r, 1) : f32[s0, s1, 8]
  %1 = aten.layer_norm(%0, [8], %w, %b, 1e-5, true) : f32[s0, s1, 8]
  return %1, %0
})",
              {2, 3});
  ExpectOneKernel(run);
  const Values x = Ramp(48), r = Ramp(48, 0.11), w = Ramp(8, 0.3), b = Ramp(8, 0.7);
  run.Set(0, x);
  run.Set(1, r);
  run.Set(2, w);
  run.Set(3, b);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values sum;
  for (size_t i = 0; i < 48; ++i) sum.push_back(x[i] + r[i]);
  ExpectNear(run.Get(1), sum);
  ExpectNear(run.Get(0), LayerNormOf(sum, w, b));
  // Rows of two dims collapse into one.
  EXPECT_EQ(run.fused().kernels[0].rows.size(), 1u) << run.KernelText();
}

TEST(Fuse, SiluMulIsOneKernel) {
  Program run(R"(graph @f(%x: f32[4, 6], %y: f32[4, 6]) {
  %0 = aten.silu(%x) : f32[4, 6]
  %1 = aten.mul.Tensor(%0, %y) : f32[4, 6]
  return %1
})");
  ExpectOneKernel(run);
  const Values x = Ramp(24), y = Ramp(24, 0.9);
  run.Set(0, x);
  run.Set(1, y);
  ASSERT_TRUE(run.Go());
  Values want;
  for (size_t i = 0; i < 24; ++i) want.push_back(x[i] / (1 + std::exp(-x[i])) * y[i]);
  ExpectNear(run.Get(), want);
}

TEST(Fuse, BiasGeluIsOneKernel) {
  Program run(R"(graph @f(%x: f32[4, 6], %b: f32[6]) {
  %0 = aten.add.Tensor(%x, %b, 1) : f32[4, 6]
  %1 = aten.gelu(%0, "none") : f32[4, 6]
  return %1
})");
  ExpectOneKernel(run);
  const Values x = Ramp(24), b = Ramp(6, 0.9);
  run.Set(0, x);
  run.Set(1, b);
  ASSERT_TRUE(run.Go());
  Values want;
  for (size_t i = 0; i < 24; ++i) {
    const double v = x[i] + b[i % 6];
    want.push_back(0.5 * v * (1 + std::erf(v * M_SQRT1_2)));
  }
  ExpectNear(run.Get(), want);
}

// Queries and keys come from projections seen as heads; cos and sin are shared by both.
TEST(Fuse, RotaryEmbeddingIsOneKernelForBothOperands) {
  Program run(R"(graph @f(%p: f32[2, s0, 12], %k: f32[2, s0, 12], %cos: f32[1, s0, 4], %sin: f32[1, s0, 4])
      symbols(s0 = %p.dim(1)) {
  %0 = aten.view(%p, [2, s0, 3, 4]) : f32[2, s0, 3, 4]
  %1 = aten.transpose.int(%0, 1, 2) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %20 = aten.view(%k, [2, s0, 3, 4]) : f32[2, s0, 3, 4]
  %21 = aten.transpose.int(%20, 1, 2) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %2 = aten.unsqueeze(%cos, 1) : f32[1, 1, s0, 4]
  %3 = aten.unsqueeze(%sin, 1) : f32[1, 1, s0, 4]
  %4 = aten.mul.Tensor(%1, %2) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %5 = aten.slice.Tensor(%1, 3, 0, 2, 1) : f32[2, 3, s0, 2] strides [12*s0, 4, 12, 1]
  %6 = aten.slice.Tensor(%1, 3, 2, 9223372036854775807, 1) : f32[2, 3, s0, 2] strides [12*s0, 4, 12, 1]
  %7 = aten.neg(%6) : f32[2, 3, s0, 2] strides [6*s0, 2, 6, 1]
  %8 = aten.cat([%7, %5], -1) : f32[2, 3, s0, 4]
  %9 = aten.mul.Tensor(%8, %3) : f32[2, 3, s0, 4]
  %10 = aten.add.Tensor(%4, %9, 1) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %24 = aten.mul.Tensor(%21, %2) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  %25 = aten.slice.Tensor(%21, 3, 0, 2, 1) : f32[2, 3, s0, 2] strides [12*s0, 4, 12, 1]
  %26 = aten.slice.Tensor(%21, 3, 2, 9223372036854775807, 1) : f32[2, 3, s0, 2] strides [12*s0, 4, 12, 1]
  %27 = aten.neg(%26) : f32[2, 3, s0, 2] strides [6*s0, 2, 6, 1]
  %28 = aten.cat([%27, %25], -1) : f32[2, 3, s0, 4]
  %29 = aten.mul.Tensor(%28, %3) : f32[2, 3, s0, 4]
  %30 = aten.add.Tensor(%24, %29, 1) : f32[2, 3, s0, 4] strides [12*s0, 4, 12, 1]
  return %10, %30
})",
              {5});
  ExpectOneKernel(run);
  const Values p = Ramp(120), k = Ramp(120, 0.53), c = Ramp(20, 0.9), s = Ramp(20, 0.21);
  run.Set(0, p);
  run.Set(1, k);
  run.Set(2, c);
  run.Set(3, s);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  for (size_t which = 0; which < 2; ++which) {
    const Values& x = which ? k : p;
    Values want;
    for (size_t b = 0; b < 2; ++b) {
      for (size_t h = 0; h < 3; ++h) {
        for (size_t t = 0; t < 5; ++t) {
          for (size_t d = 0; d < 4; ++d) {
            const auto at = [&](size_t i) { return x[b * 60 + t * 12 + h * 4 + i]; };
            const double rotated = d < 2 ? -at(d + 2) : at(d - 2);
            want.push_back(at(d) * c[t * 4 + d] + rotated * s[t * 4 + d]);
          }
        }
      }
    }
    ExpectNear(run.Get(which), want);
  }
}

TEST(Fuse, EmbeddingSumAndLayerNormAreOneKernel) {
  Program run(R"(graph @f(%ids: i64[2, 3], %words: f32[10, 4] weight "w", %places: f32[5, 4] weight "p",
      %w: f32[4], %b: f32[4]) {
  %0 = aten.embedding(%words, %ids, -1, false, false) : f32[2, 3, 4]
  %1 = aten.arange.start(0, 3, dtype i64, none, "cpu", none) : i64[3]
  %2 = aten.embedding(%places, %1, -1, false, false) : f32[3, 4]
  %3 = aten.add.Tensor(%0, %2, 1) : f32[2, 3, 4]
  %4 = aten.layer_norm(%3, [4], %w, %b, 1e-5, true) : f32[2, 3, 4]
  return %4
})");
  ExpectOneKernel(run);
  const Values words = Ramp(40), places = Ramp(20, 0.77), w = Ramp(4), b = Ramp(4, 0.5);
  const Values ids = {3, 0, 9, 1, 2, 4};
  run.Set(0, ids);
  run.Set(1, words);
  run.Set(2, places);
  run.Set(3, w);
  run.Set(4, b);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values sum;
  for (size_t i = 0; i < 6; ++i) {
    const auto id = static_cast<size_t>(ids[i]);
    for (size_t j = 0; j < 4; ++j) sum.push_back(words[id * 4 + j] + places[i % 3 * 4 + j]);
  }
  ExpectNear(run.Get(), LayerNormOf(sum, w, b));
  for (const double bad : {10, -1}) {
    run.Set(0, {3, 0, bad, 1, 2, 4});
    EXPECT_FALSE(run.Go()) << bad << " is no row of the table";
  }
}

TEST(Fuse, QueryNormAndRotaryAreOneKernel) {
  Program run(R"(graph @f(%q: f32[2, 5, 3, 4], %w: f32[4], %cos: f32[5, 4]) {
  %0 = aten.rms_norm(%q, [4], %w, 1e-6) : f32[2, 5, 3, 4]
  %1 = aten.transpose.int(%0, 1, 2) : f32[2, 3, 5, 4] strides [60, 4, 12, 1]
  %2 = aten.mul.Tensor(%1, %cos) : f32[2, 3, 5, 4] strides [60, 4, 12, 1]
  %3 = aten.slice.Tensor(%1, 3, 0, 2, 1) : f32[2, 3, 5, 2] strides [60, 4, 12, 1]
  %4 = aten.slice.Tensor(%1, 3, 2, 4, 1) : f32[2, 3, 5, 2] strides [60, 4, 12, 1]
  %5 = aten.neg(%4) : f32[2, 3, 5, 2] strides [30, 2, 6, 1]
  %6 = aten.cat([%5, %3], 3) : f32[2, 3, 5, 4]
  %7 = aten.add.Tensor(%2, %6, 1) : f32[2, 3, 5, 4] strides [60, 4, 12, 1]
  return %7
})");
  ExpectOneKernel(run);
  const Values q = Ramp(120), w = Ramp(4, 0.3, 0.2), c = Ramp(20, 0.8);
  run.Set(0, q);
  run.Set(1, w);
  run.Set(2, c);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values want;
  for (size_t b = 0; b < 2; ++b) {
    for (size_t h = 0; h < 3; ++h) {
      for (size_t s = 0; s < 5; ++s) {
        const double* x = &q[b * 60 + s * 12 + h * 4];
        double sum = 0;
        for (size_t d = 0; d < 4; ++d) sum += x[d] * x[d] / 4;
        Values n;
        for (size_t d = 0; d < 4; ++d) n.push_back(x[d] / std::sqrt(sum + 1e-6) * w[d]);
        for (size_t d = 0; d < 4; ++d) {
          want.push_back(n[d] * c[s * 4 + d] + (d < 2 ? -n[d + 2] : n[d - 2]));
        }
      }
    }
  }
  ExpectNear(run.Get(), want);
}

// What copies the heads back next to each other after attention.
TEST(Fuse, CopyingReshapeRunsOverTheFinerDims) {
  Program run(R"(graph @f(%x: f32[2, 3, s0, 4]) symbols(s0 = %x.dim(2)) {
  %0 = aten.transpose.int(%x, 1, 2) : f32[2, s0, 3, 4] strides [12*s0, 4, 4*s0, 1]
  %1 = aten.reshape(%0, [2, s0, 12]) : f32[2, s0, 12]
  %2 = aten.mul.Tensor(%1, number 2.0) : f32[2, s0, 12]
  return %1
})",
              {5});
  ExpectOneKernel(run);
  const Values x = Ramp(120);
  run.Set(0, x);
  ASSERT_TRUE(run.Go());
  Values want;
  for (size_t b = 0; b < 2; ++b) {
    for (size_t s = 0; s < 5; ++s) {
      for (size_t i = 0; i < 12; ++i) want.push_back(x[b * 60 + i / 4 * 20 + s * 4 + i % 4]);
    }
  }
  ExpectNear(run.Get(), want);
}

TEST(Fuse, MeanOverAMiddleDimWithMaskIsMeanPooling) {
  Program run(R"(graph @f(%x: f32[2, s0, 4], %m: i64[2, s0]) symbols(s0 = %x.dim(1)) {
  %0 = aten.unsqueeze(%m, -1) : i64[2, s0, 1]
  %1 = aten.to.dtype(%0, dtype f32, false, false, none) : f32[2, s0, 1]
  %2 = aten.mul.Tensor(%x, %1) : f32[2, s0, 4]
  %3 = aten.sum.dim_IntList(%2, [1], false, none) : f32[2, 4]
  %4 = aten.sum.dim_IntList(%1, [1], false, none) : f32[2, 1]
  %5 = aten.clamp(%4, 1e-9, none) : f32[2, 1]
  %6 = aten.div.Tensor(%3, %5) : f32[2, 4]
  return %6
})",
              {5});
  EXPECT_LE(run.launches(), 2u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  const Values x = Ramp(40), m = {1, 1, 0, 1, 0, 1, 1, 1, 1, 0};
  run.Set(0, x);
  run.Set(1, m);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  Values want;
  for (size_t b = 0; b < 2; ++b) {
    for (size_t h = 0; h < 4; ++h) {
      double sum = 0, count = 0;
      for (size_t s = 0; s < 5; ++s) {
        sum += x[b * 20 + s * 4 + h] * m[b * 5 + s];
        count += m[b * 5 + s];
      }
      want.push_back(sum / count);
    }
  }
  ExpectNear(run.Get(), want);
}

TEST(Fuse, StridedExpandedAndZeroDimInputs) {
  Program run(R"(graph @f(%x: f32[3, 4] strides [1, 6], %y: f32[3, 4] strides [0, 1], %z: f32[]) {
  %0 = aten.add.Tensor(%x, %y, 2) : f32[3, 4] strides [1, 3]
  %1 = aten.mul.Tensor(%0, %z) : f32[3, 4] strides [1, 3]
  return %1
})");
  ExpectOneKernel(run);
  Values x = Ramp(12), row = Ramp(4, 0.6), y, want;
  for (size_t i = 0; i < 12; ++i) y.push_back(row[i % 4]);
  run.Set(0, x);
  run.Set(1, y);
  run.Set(2, {3});
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  for (size_t i = 0; i < 12; ++i) want.push_back((x[i] + 2 * y[i]) * 3);
  ExpectNear(run.Get(), want);
}

TEST(Fuse, ZeroSizesAndZeroDimResults) {
  Program run(R"(graph @f(%x: f32[s0, 3]) symbols(s0 = %x.dim(0)) {
  %0 = aten.relu(%x) : f32[s0, 3]
  %1 = aten.sum(%0, none) : f32[]
  %2 = aten.add.Tensor(%1, number 1, 1) : f32[]
  return %2, %0
})",
              {0});
  EXPECT_EQ(run.aten_steps(), 0u);
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  EXPECT_EQ(run.Get(), Values{1});
}

TEST(Fuse, LoopsOverNoPartStoreNotTheWhole) {
  Program run(R"(graph @f(%x: f32[1, 1]) {
  %0 = aten.relu(%x) : f32[1, 1]
  %1 = aten.slice.Tensor(%0, 0, 1, 1, 1) : f32[0, 1]
  %2 = aten.sum(%1, none) : f32[]
  return %2, %0
})");
  run.Set(0, {3});
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  EXPECT_EQ(run.Get(0), Values{0});
  EXPECT_EQ(run.Get(1), Values{3}) << run.KernelText();
}

TEST(Fuse, NanAndInfinityGoThroughAsInTorch) {
  Program run(R"(graph @f(%x: f32[6]) {
  %0 = aten.relu(%x) : f32[6]
  %1 = aten.clamp(%x, -1, 1) : f32[6]
  %2 = aten.amax(%x, [0], false) : f32[]
  %3 = aten.isnan(%x) : bool[6]
  %4 = aten.argmax(%x, 0, false) : i64[]
  %5 = aten.isfinite(%x) : bool[6]
  return %0, %1, %2, %3, %4, %5
})");
  EXPECT_EQ(run.aten_steps(), 0u);
  const double nan = std::nan("");
  run.Set(0, {1, -kInf, kInf, nan, -0.5, nan});
  const Status status = run.Go();
  ASSERT_TRUE(status) << status.error().ToText() << run.KernelText();
  ExpectNear(run.Get(0), {1, 0, kInf, nan, 0, nan});
  ExpectNear(run.Get(1), {1, -1, 1, nan, -0.5, nan});
  ExpectNear(run.Get(2), {nan});
  EXPECT_EQ(run.Get(3), (Values{0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(run.Get(4), (Values{3}));
  EXPECT_EQ(run.Get(5), (Values{1, 0, 0, 0, 1, 0}));
}

/// One pointwise node over f32[8]; `expected` maps an element.
struct UnaryCase {
  std::string call;
  std::function<double(double)> expected;
};

TEST(Fuse, PointwiseFormulas) {
  const std::vector<UnaryCase> cases = {
      {"aten.neg(%x)", [](double v) { return -v; }},
      {"aten.abs(%x)", [](double v) { return std::fabs(v); }},
      {"aten.sign(%x)", [](double v) { return (v > 0) - (v < 0); }},
      {"aten.exp(%x)", [](double v) { return std::exp(v); }},
      {"aten.sin(%x)", [](double v) { return std::sin(v); }},
      {"aten.cos(%x)", [](double v) { return std::cos(v); }},
      {"aten.tanh(%x)", [](double v) { return std::tanh(v); }},
      {"aten.sigmoid(%x)", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"aten.log(%x)", [](double v) { return std::log(v); }},
      {"aten.sqrt(%x)", [](double v) { return std::sqrt(v); }},
      {"aten.reciprocal(%x)", [](double v) { return 1 / v; }},
      {"aten.floor(%x)", [](double v) { return std::floor(v); }},
      {"aten.round(%x)", [](double v) { return std::nearbyint(v); }},
      {"aten.trunc(%x)", [](double v) { return std::trunc(v); }},
      {"aten.relu6(%x)", [](double v) { return std::min(std::max(v, 0.0), 6.0); }},
      {"aten.leaky_relu(%x, 0.1)", [](double v) { return v > 0 ? v : 0.1 * v; }},
      {"aten.elu(%x, 1.5, 1, 1)", [](double v) { return v > 0 ? v : 1.5 * std::expm1(v); }},
      {"aten.softplus(%x, 2, 20)", [](double v) { return std::log1p(std::exp(2 * v)) / 2; }},
      {"aten.hardswish(%x)", [](double v) { return v * std::min(std::max(v + 3, 0.0), 6.0) / 6; }},
      {"aten.gelu(%x, \"tanh\")",
       [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }},
      {"aten.pow.Tensor_Scalar(%x, 3)", [](double v) { return v * v * v; }},
      {"aten.rsub.Scalar(%x, 1.0, 1)", [](double v) { return 1 - v; }},
      {"aten.div.Tensor_mode(%x, number 0.5, \"trunc\")", [](double v) { return std::trunc(v / 0.5); }},
      {"aten.remainder.Scalar(%x, 0.75)", [](double v) { return v - 0.75 * std::floor(v / 0.75); }},
      {"aten.clamp_min(%x, 0.25)", [](double v) { return std::max(v, 0.25); }},
      {"aten.to.dtype(%x, dtype f32, false, false, none)", [](double v) { return v; }},
  };
  const Values x = {-2.6, -1, -0.3, 0.0, 0.2, 0.5, 1.7, 3.25};
  for (const UnaryCase& c : cases) {
    Program run("graph @f(%x: f32[8]) {\n  %0 = " + c.call + " : f32[8]\n  return %0\n}");
    ASSERT_EQ(run.launches(), 1u) << c.call;
    run.Set(0, x);
    ASSERT_TRUE(run.Go()) << c.call;
    Values want;
    for (double v : x) want.push_back(c.expected(static_cast<float>(v)));
    SCOPED_TRACE(c.call);
    ExpectNear(run.Get(), want);
  }
}

TEST(Fuse, MovesByPredicatesAndGathers) {
  const std::vector<std::pair<std::string, Values>> cases = {
      {"aten.cat([%x, %x], 1) : f32[2, 6]", {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
      {"aten.cat([%x, %x], 0) : f32[4, 3]", {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}},
      {"aten.stack([%x, %x], 1) : f32[2, 2, 3]", {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
      {"aten.constant_pad_nd(%x, [1, 0], 9.0) : f32[2, 4]", {9, 0, 1, 2, 9, 3, 4, 5}},
      {"aten.tril(%x, 0) : f32[2, 3]", {0, 0, 0, 3, 4, 0}},
      {"aten.triu(%x, 1) : f32[2, 3]", {0, 1, 2, 0, 0, 5}},
      {"aten.index_select(%x, 1, %i) : f32[2, 2]", {2, 0, 5, 3}},
      {"aten.gather(%x, 0, %g, false) : f32[1, 2]", {3, 1}},
      {"aten.gather(%one, 0, %i, false) : f32[2]", {}},
      {"aten.index.Tensor(%x, [none, %i]) : f32[2, 2]", {2, 0, 5, 3}},
      {"aten.clone(%t, none) : f32[3, 2] strides [1, 3]", {0, 3, 1, 4, 2, 5}},
      {"aten.full_like(%x, 7.0, none, none, none, none, none) : f32[2, 3]", {7, 7, 7, 7, 7, 7}},
      {"aten.ge.Scalar(%x, 3) : bool[2, 3]", {0, 0, 0, 1, 1, 1}},
      {"aten.cumsum(%x, 1, none) : f32[2, 3]", {0, 1, 3, 3, 7, 12}},
      {"aten.cumsum(%x, 0, none) : f32[2, 3]", {0, 1, 2, 3, 5, 7}},
      {"aten.cumsum(%t, 0, none) : f32[3, 2]", {0, 3, 1, 7, 3, 12}},
      {"aten.cumprod(%x, -1, none) : f32[2, 3]", {0, 0, 0, 3, 12, 60}},
      {"aten.cumsum(%one, 0, none) : f32[]", {7}},
      {"aten.logcumsumexp(%x, 1) : f32[2, 3]", {}},
  };
  for (const auto& [call, want] : cases) {
    Program run(
        "graph @f(%x: f32[2, 3], %i: i64[2], %g: i32[1, 2], %one: f32[]) {\n"
        "  %t = aten.t(%x) : f32[3, 2] strides [1, 3]\n  %0 = " +
        call + "\n  return %0\n}");
    SCOPED_TRACE(call);
    if (want.empty()) {
      EXPECT_EQ(run.launches(), 0u) << "no rule: stays with ATen";
      continue;
    }
    ASSERT_EQ(run.launches(), 1u);
    ASSERT_EQ(run.aten_steps(), 0u);
    run.Set(0, {0, 1, 2, 3, 4, 5});
    run.Set(1, {2, 0});
    run.Set(2, {1, 0});
    run.Set(3, {7});
    const Status status = run.Go();
    ASSERT_TRUE(status) << status.error().ToText();
    EXPECT_EQ(run.Get(), want) << run.KernelText();
  }
}

TEST(Scan, FusesWithWhatComesBeforeAndAfter) {
  Program run(R"(graph @f(%x: f32[3, s0]) symbols(s0 = %x.dim(1)) {
  %0 = aten.softmax.int(%x, -1, none) : f32[3, s0]
  %1 = aten.cumsum(%0, -1, none) : f32[3, s0]
  %2 = aten.sub.Tensor(%1, %0, 1) : f32[3, s0]
  %3 = aten.gt.Scalar(%2, 0.5) : bool[3, s0]
  %4 = aten.masked_fill.Scalar(%x, %3, -inf) : f32[3, s0]
  return %4
})",
              {5});
  ExpectOneKernel(run);
  const Values x = Ramp(15);
  run.Set(0, x);
  ASSERT_TRUE(run.Go());
  const Values soft = SoftmaxOf(x, 5);
  Values want;
  for (size_t i = 0; i < x.size(); ++i) {
    double before = 0;
    for (size_t j = i / 5 * 5; j < i; ++j) before += soft[j];
    want.push_back(before > 0.5 ? -kInf : x[i]);
  }
  ExpectNear(run.Get(), want);
}

TEST(Scan, OfAnExtremeGivesTheLastPositionOfEqualOnes) {
  Program run(R"(graph @f(%x: f32[6]) {
  %0, %1 = aten.cummax(%x, 0) : f32[6], i64[6]
  %2, %3 = aten.cummin(%x, 0) : f32[6], i64[6]
  return %0, %1, %2, %3
})");
  ExpectOneKernel(run);
  const double nan = std::nan("");
  run.Set(0, {2, 2, 5, 1, nan, 7});
  ASSERT_TRUE(run.Go());
  ExpectNear(run.Get(0), {2, 2, 5, 5, nan, nan});
  EXPECT_EQ(run.Get(1), (Values{0, 1, 2, 2, 4, 4}));
  ExpectNear(run.Get(2), {2, 2, 2, 1, nan, nan});
  EXPECT_EQ(run.Get(3), (Values{0, 1, 1, 3, 4, 4}));
}

// The places before a part count as well, and what is folded along another dim goes another way.
TEST(Scan, StandsAloneWhereOthersWalkAnotherWay) {
  const std::vector<std::pair<std::string, Values>> cases = {
      {"aten.slice.Tensor(%0, 1, 1, 3, 1) : f32[2, 2] strides [3, 1]\n  %2 = aten.neg(%1) : f32[2, 2]",
       {-1, -3, -7, -12}},
      {"aten.sum.dim_IntList(%0, [0], false, none) : f32[3]\n  %2 = aten.neg(%1) : f32[3]", {-3, -8, -15}},
      {"aten.cumsum(%0, 0, none) : f32[2, 3]\n  %2 = aten.neg(%1) : f32[2, 3]", {0, -1, -3, -3, -8, -15}},
      {"aten.amax(%0, [1], false) : f32[2]\n  %2 = aten.neg(%1) : f32[2]", {-3, -12}},
      {"aten.cat([%0, %x], 1) : f32[2, 6]\n  %2 = aten.neg(%1) : f32[2, 6]",
       {0, -1, -3, 0, -1, -2, -3, -7, -12, -3, -4, -5}},
      {"aten.cat([%0, %x], 0) : f32[4, 3]\n  %2 = aten.neg(%1) : f32[4, 3]",
       {0, -1, -3, -3, -7, -12, 0, -1, -2, -3, -4, -5}},
      {"aten.flip(%0, [1]) : f32[2, 3]\n  %2 = aten.neg(%1) : f32[2, 3]", {-3, -1, 0, -12, -7, -3}},
  };
  for (const auto& [rest, want] : cases) {
    Program run("graph @f(%x: f32[2, 3]) {\n  %0 = aten.cumsum(%x, 1, none) : f32[2, 3]\n  %1 = " + rest +
                "\n  return %2\n}");
    SCOPED_TRACE(rest);
    run.Set(0, {0, 1, 2, 3, 4, 5});
    const Status status = run.Go();
    if (!status) {
      EXPECT_NE(status.error().message().find("flip"), std::string::npos) << status.error().ToText();
      continue;
    }
    EXPECT_EQ(run.Get(), want) << run.KernelText();
  }
}

// As in eager: x[i] counts from the end, the others raise.
TEST(Fuse, OnlyIndexingTakesNegativeIndices) {
  const std::pair<std::string, bool> cases[] = {
      {"aten.index.Tensor(%x, [%i]) : f32[2, 3]", true},
      {"aten.index_select(%x, 0, %i) : f32[2, 3]", false},
      {"aten.gather(%x, 0, %g, false) : f32[2, 1]", false},
      {"aten.embedding(%x, %i, -1, false, false) : f32[2, 3]", false},
  };
  for (const auto& [call, wraps] : cases) {
    Program run(
        "graph @f(%x: f32[4, 3], %i: i64[2]) {\n  %g = aten.unsqueeze(%i, 1) : i64[2, 1]\n"
        "  %0 = " +
        call + "\n  return %0\n}");
    ASSERT_EQ(run.launches(), 1u) << call;
    for (const auto& [index, holds] :
         {std::pair(3.0, true), {-1.0, wraps}, {-4.0, wraps}, {4.0, false}, {-5.0, false}}) {
      run.Set(1, {0, index});
      EXPECT_EQ(run.Go().has_value(), holds) << call << " at " << index;
    }
  }
}

// What is used of a gather does not say which indices eager looks at: all of them.
TEST(Fuse, PartsOfGathersCheckEveryIndex) {
  const std::pair<std::string, size_t> cases[] = {
      {"%1 = aten.slice.Tensor(%0, 0, 0, 2, 1) : f32[2, 3]", 2},
      {"%1 = aten.slice.Tensor(%0, 1, 1, 3, 1) : f32[4, 2] strides [3, 1]", 1},
      {"%1 = aten.select.int(%0, 0, 3) : f32[3]", 2},
      {"%1 = aten.t(%0) : f32[3, 4] strides [1, 3]", 1},
      {"%1 = aten.sum.dim_IntList(%0, [0], false, none) : f32[3]", 1},
      {"%1 = aten.view(%0, [2, 2, 3]) : f32[2, 2, 3]", 1},
      {"%1 = aten.cat([%0, %y], 0) : f32[5, 3]", 1},
      {"%c = aten.cat([%y, %0], 0) : f32[5, 3]\n"
       "  %1 = aten.slice.Tensor(%c, 0, 0, 4, 1) : f32[4, 3]",
       2},
      {"%s = aten.slice.Tensor(%0, 0, 0, 2, 1) : f32[2, 3]\n"
       "  %1 = aten.constant_pad_nd(%s, [0, 0, 0, 2], 0.0) : f32[4, 3]",
       2},
  };
  for (const auto& [part, kernels] : cases) {
    const std::string sizes = part.substr(part.rfind(": ") + 2);
    Program run(
        "graph @f(%x: f32[6, 3], %i: i64[4], %y: f32[1, 3]) {\n"
        "  %0 = aten.embedding(%x, %i, -1, false, false) : f32[4, 3]\n  " +
        part + "\n  %2 = aten.neg(%1) : " + sizes + "\n  return %2\n}");
    SCOPED_TRACE(part);
    EXPECT_EQ(run.launches(), kernels) << run.KernelText();
    run.Set(1, {0, 5, 2, 1});
    const Status status = run.Go();
    EXPECT_TRUE(status) << status.error().ToText();
    for (size_t at = 0; at < 4; ++at) {
      Values indices = {0, 5, 2, 1};
      indices[at] = 6;
      run.Set(1, indices);
      EXPECT_FALSE(run.Go()) << "index " << at;
    }
  }
}

// torch takes bytes for a mask, as bools, and refuses the other narrow types.
TEST(Fuse, IndicesOfNarrowTypesStayWithAten) {
  for (const std::string type : {"u8", "bool", "i8", "i16"}) {
    const Program run("graph @f(%x: f32[4, 3], %i: " + type +
                      "[4]) {\n"
                      "  %0 = aten.index.Tensor(%x, [%i]) : f32[4, 3]\n  return %0\n}");
    EXPECT_EQ(run.launches(), 0u) << type;
  }
  const Program run(
      "graph @f(%x: f32[4, 3], %i: i32[4]) {\n"
      "  %0 = aten.index.Tensor(%x, [%i]) : f32[4, 3]\n  return %0\n}");
  EXPECT_EQ(run.launches(), 1u);
}

// Scalars take part in promotion as torch has it.
TEST(Fuse, IntegerArithmeticPromotes) {
  Program run(R"(graph @f(%x: i64[4], %y: f32[4]) {
  %0 = aten.div.Tensor(%x, number 2) : f32[4]
  %1 = aten.gt.Tensor(%x, %y) : bool[4]
  %2 = aten.mul.Tensor(%x, number 3) : i64[4]
  %3 = aten.floor_divide(%x, number 2) : i64[4]
  %4 = aten.remainder.Scalar(%x, 3) : i64[4]
  return %0, %1, %2, %3, %4
})");
  ExpectOneKernel(run);
  run.Set(0, {-3, 0, 1, 5});
  run.Set(1, {-3.5, 0, 1.5, 4});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(0), (Values{-1.5, 0, 0.5, 2.5}));
  EXPECT_EQ(run.Get(1), (Values{1, 0, 0, 1}));
  EXPECT_EQ(run.Get(2), (Values{-9, 0, 3, 15}));
  EXPECT_EQ(run.Get(3), (Values{-2, 0, 0, 2}));
  EXPECT_EQ(run.Get(4), (Values{0, 0, 1, 2}));
}

TEST(Fuse, AtenNodeBetweenKeepsItsPlaceAndCutsTheGroup) {
  Program run(R"(graph @f(%x: f32[4, 4], %w: f32[4, 4] weight "w") {
  %0 = aten.relu(%x) : f32[4, 4]
  %1 = aten.linalg_solve(%0, %w) : f32[4, 4]
  %2 = aten.add.Tensor(%0, %1, 1) : f32[4, 4]
  return %2
})");
  ASSERT_EQ(run.fused().steps.size(), 3u);
  EXPECT_TRUE(run.fused().steps[0].is_launch);
  EXPECT_FALSE(run.fused().steps[1].is_launch);
  EXPECT_TRUE(run.fused().steps[2].is_launch);
}

TEST(Fuse, ReadersOfOldMemoryRunBeforeTheWrite) {
  Program run(R"(graph @f(%x: f32[4], %i: i64[1], %v: f32[1]) {
  %0 = aten.exp(%x) : f32[4]
  %1 = aten.index_copy(%x, 0, %i, %v) {inplace = 0} : f32[4]
  %2 = aten.exp(%1) : f32[4]
  %3 = aten.add.Tensor(%0, %2, 1) : f32[4]
  write %x = %1
  return %3
})");
  EXPECT_EQ(run.launches(), 3u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  run.Set(0, {1, 2, 3, 4}), run.Set(1, {2}), run.Set(2, {-1});
  ASSERT_TRUE(run.Go());
  ExpectNear(run.Get(), {2 * std::exp(1), 2 * std::exp(2), std::exp(3) + std::exp(-1), 2 * std::exp(4)});
}

// A layer's keys and values go into their caches in one kernel, turned by their position on the way.
TEST(Fuse, WritesRowsOfCachesInPlace) {
  Program run(R"(graph @f(%k: f32[1, 2, 3, 4], %v: f32[1, 2, 3, 4], %c: f32[3, 4], %at: i64[3], %keys: f32[1, 2, 5, 4],
      %values: f32[1, 2, 5, 4]) {
  %0 = aten.mul.Tensor(%k, %c) : f32[1, 2, 3, 4]
  %1 = aten.index_copy(%keys, 2, %at, %0) {inplace = 0} : f32[1, 2, 5, 4]
  %2 = aten.index_put(%values, [none, none, %at], %v, false) {inplace = 0} : f32[1, 2, 5, 4]
  write %keys = %1
  write %values = %2
  return %1, %2
})");
  ExpectOneKernel(run);
  const Values k = Ramp(24), v = Ramp(24, 0.2), c = Ramp(12, 0.5), keys = Ramp(40, 0.1), values = Ramp(40, 0.3);
  const Values at = {4, 0, 2};
  run.Set(0, k), run.Set(1, v), run.Set(2, c), run.Set(3, at), run.Set(4, keys), run.Set(5, values);
  ASSERT_TRUE(run.Go());
  Values new_keys = keys, new_values = values;
  for (size_t h = 0; h < 2; ++h) {
    for (size_t t = 0; t < 3; ++t) {
      for (size_t d = 0; d < 4; ++d) {
        const size_t to = (h * 5 + static_cast<size_t>(at[t])) * 4 + d, from = (h * 3 + t) * 4 + d;
        new_keys[to] = k[from] * c[t * 4 + d];
        new_values[to] = v[from];
      }
    }
  }
  ExpectNear(run.Get(0), new_keys);
  ExpectNear(run.Get(1), new_values);
  for (const double outside : {5.0, -6.0}) {
    run.Set(3, {0, 1, outside});
    EXPECT_FALSE(run.Go()) << outside;
  }
  // index_put counts from the end, index_copy does not.
  run.Set(3, {0, 1, -1});
  EXPECT_FALSE(run.Go());
}

TEST(Fuse, WritesPartsInPlace) {
  Program run(R"(graph @f(%x: f32[3, 5], %a: f32[3, 2], %b: f32[5], %y: f32[2, 3], %z: f32[3], %b3: f32[3]) {
  %0 = aten.slice_scatter(%x, %a, 1, 1, 5, 2) {inplace = 0} : f32[3, 5]
  %1 = aten.select_scatter(%0, %b, 0, 2) {inplace = 0} : f32[3, 5]
  %2 = aten.copy(%y, %b3) {inplace = 0} : f32[2, 3]
  %3 = aten.mul.Tensor(%z, 2) {inplace = 0} : f32[3]
  write %x = %1
  write %y = %2
  write %z = %3
  return %1, %2, %3
})");
  EXPECT_EQ(run.aten_steps(), 0u);
  const Values x = Ramp(15), a = Ramp(6, 0.2), b = Ramp(5, 0.9), z = {1, 2, 3}, c = {7, 8, 9};
  run.Set(0, x), run.Set(1, a), run.Set(2, b), run.Set(3, Ramp(6)), run.Set(4, z), run.Set(5, c);
  ASSERT_TRUE(run.Go());
  Values want = x;
  for (size_t r = 0; r < 3; ++r) {
    for (size_t k = 0; k < 2; ++k) want[r * 5 + 1 + 2 * k] = a[r * 2 + k];
  }
  std::ranges::copy(b, want.begin() + 10);
  ExpectNear(run.Get(0), want);
  ExpectNear(run.Get(1), {7, 8, 9, 7, 8, 9});
  ExpectNear(run.Get(2), {2, 4, 6});
}

// x[1, :, i] = y: what lies between the views is no memory.
TEST(Fuse, WritesIntoViewsOfViewsAtOnce) {
  Program run(R"(graph @f(%x: f32[3, 2, 5], %i: i64[2], %y: f32[2, 2], %z: f32[2, 1]) {
  %0 = aten.select.int(%x, 0, 1) : f32[2, 5]
  %1 = aten.index_put(%0, [none, %i], %y, false) : f32[2, 5]
  %2 = aten.select_scatter(%x, %1, 0, 1) {inplace = 0} : f32[3, 2, 5]
  %3 = aten.slice.Tensor(%2, 0, 1, 3, 1) : f32[2, 2, 5]
  %4 = aten.select.int(%3, 0, 1) : f32[2, 5]
  %5 = aten.slice_scatter(%4, %z, 1, 3, 4, 1) : f32[2, 5]
  %6 = aten.select_scatter(%3, %5, 0, 1) : f32[2, 2, 5]
  %7 = aten.slice_scatter(%2, %6, 0, 1, 3, 1) {inplace = 0} : f32[3, 2, 5]
  write %x = %7
  return %7
})");
  EXPECT_EQ(run.launches(), 2u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  const Values x = Ramp(30);
  run.Set(0, x), run.Set(1, {-1, 2}), run.Set(2, {1, 2, 3, 4}), run.Set(3, {7, 8});
  ASSERT_TRUE(run.Go());
  Values want = x;
  want[14] = 1, want[12] = 2, want[19] = 3, want[17] = 4, want[23] = 7, want[28] = 8;
  ExpectNear(run.Get(), want);
  run.Set(1, {5, 0});
  EXPECT_FALSE(run.Go());
}

// An index into a part counts in the part: that is not the same in the whole.
TEST(Fuse, KeepsIndicesWithinTheirView) {
  Program run(R"(graph @f(%x: f32[6, 2], %i: i64[1], %y: f32[1, 2]) {
  %0 = aten.slice.Tensor(%x, 0, 0, 3, 1) : f32[3, 2]
  %1 = aten.index_copy(%0, 0, %i, %y) : f32[3, 2]
  %2 = aten.slice_scatter(%x, %1, 0, 0, 3, 1) {inplace = 0} : f32[6, 2]
  write %x = %2
  return %2
})");
  EXPECT_EQ(run.launches(), 1u);
  EXPECT_EQ(run.aten_steps(), 2u) << "a view, and a copy of the part, whose index PyTorch checks";
}

// What is stored may not be computed beside the store from what lay there before.
TEST(Fuse, ReadsOldMemoryElsewhereBeforeItWrites) {
  Program run(R"(graph @f(%x: f32[4, 3], %i: i64[1]) {
  %0 = aten.flip(%x, [0]) : f32[4, 3]
  %1 = aten.slice.Tensor(%x, 0, 1, 2, 1) : f32[1, 3] strides [3, 1]
  %2 = aten.mul.Tensor(%1, 2) : f32[1, 3]
  %3 = aten.index_copy(%x, 0, %i, %2) {inplace = 0} : f32[4, 3]
  write %x = %3
  return %3
})");
  EXPECT_EQ(run.launches(), 2u) << run.KernelText();
  const Values x = Ramp(12);
  run.Set(0, x), run.Set(1, {3});
  ASSERT_TRUE(run.Go());
  Values want = x;
  for (size_t d = 0; d < 3; ++d) want[9 + d] = 2 * x[3 + d];
  ExpectNear(run.Get(), want);
}

TEST(Fuse, EffectsKeepTheirOrder) {
  Program run(R"(graph @f(%x: f32[4]) {
  %0 = aten.dropout(%x, 0.5, true) {random} : f32[4]
  %1 = aten.relu(%x) : f32[4]
  %2 = aten.dropout(%1, 0.5, true) {random} : f32[4]
  %3 = aten.add.Tensor(%2, %0, 1) : f32[4]
  return %3
})");
  std::vector<NodeId> nodes;
  for (const auto& step : run.fused().steps) {
    if (!step.is_launch) nodes.push_back(step.node);
  }
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_LT(nodes[0], nodes[1]);
}

TEST(Fuse, ViewsThatAtenNeedsStayAsSteps) {
  Program run(R"(graph @f(%x: f32[4, 6]) {
  %0 = aten.relu(%x) : f32[4, 6]
  %1 = aten.t(%0) : f32[6, 4] strides [1, 6]
  %2 = aten.linalg_solve(%0, %1) : f32[4, 4]
  return %2
})");
  ASSERT_EQ(run.fused().steps.size(), 3u);
  EXPECT_EQ(run.graph().node(run.fused().steps[1].node).op, "aten.t");
}

// Layers of a model repeat: their kernels are shared.
TEST(Fuse, EqualGroupsShareAKernel) {
  Program run(R"(graph @f(%x: f32[4, 8], %w: f32[8, 8] weight "w", %a: f32[8] weight "a", %b: f32[8] weight "b") {
  %0 = aten.linalg_solve(%x, %w) : f32[4, 8]
  %1 = aten.layer_norm(%0, [8], %a, %b, 1e-5, true) : f32[4, 8]
  %2 = aten.linalg_solve(%1, %w) : f32[4, 8]
  %3 = aten.layer_norm(%2, [8], %b, %a, 1e-5, true) : f32[4, 8]
  return %3
})");
  EXPECT_EQ(run.launches(), 2u);
  EXPECT_EQ(run.fused().kernels.size(), 1u);
}

TEST(Fuse, LongChainsAreCutIntoBoundedKernels) {
  std::string text = "graph @f(%x: f32[64, 1024]) {\n";
  std::string last = "%x";
  for (int i = 0; i < 500; ++i) {
    text += fmt::format("  %{} = aten.mul.Tensor({}, number 1.5) : f32[64, 1024]\n", i, last);
    last = fmt::format("%{}", i);
  }
  Program run(text + "  return " + last + "\n}");
  EXPECT_GT(run.launches(), 1u);
  EXPECT_LT(run.launches(), 50u);
  for (const auto& kernel : run.fused().kernels) EXPECT_LE(kernel.insts.size(), 400u);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(Fuse(run.graph()));
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  RecordProperty("fuse_ms", std::to_string(spent.count()));
}

/// A random program over f32[2, 3, 4] and what broadcasts with it.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {
    types_ = {"f32[2, 3, 4]", "f32[2, 3, 4] strides [1, 8, 2]", "f32[4]", "f32[2, 3, 1]"};
    shapes_ = {kFull, kFull, kRow, kKeep};
    for (int i = 0; i < 14; ++i) AddNode();
  }

  std::string Text(size_t first, size_t count, const std::vector<size_t>& inputs,
                   const std::vector<size_t>& outputs) const {
    std::string text = "graph @f(";
    for (size_t i : inputs) {
      text += fmt::format("{}%v{}: {}", i == inputs[0] ? "" : ", ", i, types_[i]);
    }
    text += ") {\n";
    for (size_t n = first; n < first + count; ++n) {
      text += fmt::format("  %v{} = {} : {}\n", n, calls_[n - kInputs], types_[n]);
    }
    text += "  return ";
    for (size_t o : outputs) text += fmt::format("{}%v{}", o == outputs[0] ? "" : ", ", o);
    return text + "\n}";
  }
  size_t nodes() const { return calls_.size(); }
  const std::vector<size_t>& operands(size_t node) const { return operands_[node]; }
  static constexpr size_t kInputs = 4;

 private:
  enum Shape { kFull, kRow, kKeep, kSwapped };

  size_t Pick(std::initializer_list<Shape> allowed) {
    std::vector<size_t> from;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      if (std::find(allowed.begin(), allowed.end(), shapes_[i]) != allowed.end()) from.push_back(i);
    }
    return from[random_() % from.size()];
  }
  void Add(std::string call, std::vector<size_t> operands, Shape shape, std::string type) {
    calls_.push_back(std::move(call));
    operands_.push_back(std::move(operands));
    shapes_.push_back(shape);
    types_.push_back(std::move(type));
  }
  void AddNode() {
    const size_t a = Pick({kFull}), b = Pick({kFull, kRow, kKeep}), keep = Pick({kKeep});
    const std::string full = "f32[2, 3, 4]", swapped = "f32[2, 4, 3]";
    switch (random_() % 13) {
      case 0: return Add(fmt::format("aten.tanh(%v{})", a), {a}, kFull, full);
      case 1: return Add(fmt::format("aten.add.Tensor(%v{}, %v{}, 1)", a, b), {a, b}, kFull, full);
      case 2: return Add(fmt::format("aten.mul.Tensor(%v{}, %v{})", a, b), {a, b}, kFull, full);
      case 3: return Add(fmt::format("aten.mean.dim(%v{}, [-1], true, none)", a), {a}, kKeep, "f32[2, 3, 1]");
      case 4: return Add(fmt::format("aten.amax(%v{}, [2], true)", a), {a}, kKeep, "f32[2, 3, 1]");
      case 5: return Add(fmt::format("aten.sigmoid(%v{})", keep), {keep}, kKeep, "f32[2, 3, 1]");
      case 6: return Add(fmt::format("aten.softmax.int(%v{}, -1, none)", a), {a}, kFull, full);
      case 7: return Add(fmt::format("aten.softmax.int(%v{}, 1, none)", a), {a}, kFull, full);
      case 8: return Add(fmt::format("aten.layer_norm(%v{}, [4], %v2, none, 0.1, true)", a), {a, 2}, kFull, full);
      case 9: {
        const size_t c = Pick({kFull});
        return Add(fmt::format("aten.slice_scatter(%v{}, %v{}, 0, 0, 2, 1)", a, c), {a, c}, kFull, full);
      }
      case 10: return Add(fmt::format("aten.tril(%v{}, 0)", a), {a}, kFull, full);
      case 11:
        if (std::count(shapes_.begin(), shapes_.end(), kSwapped)) {
          const size_t s = Pick({kSwapped});
          return Add(fmt::format("aten.reshape(%v{}, [2, 3, 4])", s), {s}, kFull, full);
        }
        [[fallthrough]];
      default: return Add(fmt::format("aten.reshape(%v{}, [2, 4, 3])", a), {a}, kSwapped, swapped);
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> types_, calls_;
  std::vector<Shape> shapes_;
  std::vector<std::vector<size_t>> operands_;
};

// However nodes are grouped, every value is what the nodes give one at a time.
TEST(Fuse, GroupingChangesNoValue) {
  size_t launches = 0, nodes = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomProgram random(seed);
    const std::vector<Values> given = {Ramp(24, 0.41), Ramp(24, 0.87), Ramp(4, 0.3), Ramp(6, 0.6)};
    std::vector<Values> expected = given;
    for (size_t n = 0; n < random.nodes(); ++n) {
      std::vector<size_t> inputs = random.operands(n);
      std::sort(inputs.begin(), inputs.end());
      inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
      const size_t value = RandomProgram::kInputs + n;
      const std::string alone = random.Text(value, 1, inputs, {value});
      const auto graph = Parse(alone);
      ASSERT_TRUE(graph) << alone << graph.error().ToText();
      if (alone.find("reshape") != std::string::npos) {
        expected.push_back(expected[inputs[0]]);
        continue;
      }
      Program one(alone);
      for (size_t i = 0; i < inputs.size(); ++i) one.Set(i, expected[inputs[i]]);
      const Status status = one.Go();
      ASSERT_TRUE(status) << status.error().ToText() << alone;
      expected.push_back(one.Get());
    }
    const size_t last = RandomProgram::kInputs + random.nodes() - 1;
    const std::vector<size_t> outputs = {last, last - 3, last - 6};
    const std::string text = random.Text(RandomProgram::kInputs, random.nodes(), {0, 1, 2, 3}, outputs);
    Program all(text);
    for (size_t i = 0; i < given.size(); ++i) all.Set(i, given[i]);
    const Status status = all.Go(true);
    ASSERT_TRUE(status) << status.error().ToText() << text << all.KernelText();
    for (size_t o = 0; o < outputs.size(); ++o) {
      SCOPED_TRACE(text);
      ExpectNear(all.Get(o), expected[outputs[o]], 1e-4);
      if (HasFailure()) FAIL() << all.KernelText();
    }
    launches += all.launches();
    nodes += random.nodes();
  }
  EXPECT_LT(launches * 2, nodes) << "hardly anything was fused";
}

// 1 + 2^-9 is 1 in bf16.
constexpr double kLost = 0x1p-9;

TEST(Rounding, ReachesWhatIsCompared) {
  Program run(R"(graph @f(%x: bf16[1], %y: bf16[1]) {
  %0 = aten.add.Tensor(%x, %y, number 1) : bf16[1]
  %1 = aten.eq.Tensor(%0, %x) : bool[1]
  return %1
})");
  run.Set(0, {1});
  run.Set(1, {kLost});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(), Values({1}));
}

TEST(Rounding, ReachesBackThroughOtherOperations) {
  for (const char* discrete : {"aten.sign(%2) : bf16[1, 1]", "aten.ceil(%2) : bf16[1, 1]",
                               "aten.to.dtype(%2, dtype bool, false, false, none) : bool[1, 1]",
                               "aten.to.dtype(%2, dtype i32, false, false, none) : i32[1, 1]",
                               "aten.logical_not(%2) : bool[1, 1]", "aten.gt.Scalar(%2, number 0) : bool[1, 1]"}) {
    Program run(fmt::format(R"(graph @f(%x: bf16[1], %y: bf16[1]) {{
  %0 = aten.add.Tensor(%x, %y, number 1) : bf16[1]
  %1 = aten.view(%0, [1, 1]) : bf16[1, 1]
  %s = aten.sub.Tensor(%1, %x, number 1) : bf16[1, 1]
  %2 = aten.mul.Tensor(%s, number 4096.0) : bf16[1, 1]
  %3 = {}
  return %3
}})",
                            discrete));
    run.Set(0, {1});
    run.Set(1, {kLost});
    ASSERT_TRUE(run.Go());
    const bool is_not = std::string_view(discrete).starts_with("aten.logical_not");
    EXPECT_EQ(run.Get(), Values({is_not ? 1.0 : 0.0})) << discrete;
  }
}

TEST(Rounding, ReachesPositions) {
  Program run(R"(graph @f(%x: bf16[2], %y: bf16[2]) {
  %0 = aten.add.Tensor(%x, %y, number 1) : bf16[2]
  %1 = aten.argmax(%0, none, false) : i64[]
  return %1
})");
  run.Set(0, {1, 1});
  run.Set(1, {0, kLost});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(), Values({0}));
}

TEST(Rounding, LeavesOtherValuesWide) {
  const std::string text = R"({
  %0 = aten.add.Tensor(%x, %y, number 1) : bf16[1]
  %1 = aten.sub.Tensor(%0, %x, number 1) : bf16[1]
  return %1
})";
  for (const bool eager : {false, true}) {
    Program run("graph @f(%x: bf16[1], %y: bf16[1])" + std::string(eager ? " eager_numerics " : " ") + text);
    run.Set(0, {1});
    run.Set(1, {kLost});
    ASSERT_TRUE(run.Go());
    EXPECT_EQ(run.Get(), Values({eager ? 0 : kLost}));
  }
}

// Products of matrices.

TEST(Contract, ActivationsAndBiasFollowTheProduct) {
  Program run(R"(graph @f(%x: f32[5, 6], %w: f32[4, 6] weight "w", %v: f32[4, 6] weight "v", %b: f32[4] weight "b") {
  %0 = aten.linear(%x, %w, %b) : f32[5, 4]
  %1 = aten.silu(%0) : f32[5, 4]
  %2 = aten.linear(%x, %v, none) : f32[5, 4]
  %3 = aten.mul.Tensor(%1, %2) : f32[5, 4]
  return %3
})");
  EXPECT_EQ(run.launches(), 1u);
  EXPECT_EQ(run.aten_steps(), 0u);
  EXPECT_EQ(run.KernelText(), R"(kernel k0_linear_silu_linear_mul symbols 0 {
  param p0: in f32[30]
  param p1: in f32[24]
  param p2: in f32[24]
  param p3: in f32[4]
  param p4: out f32[20]
  buffer b0: f32[4]
  buffer b1: f32[4]
  rows [5]
  contract [4, 6] into b0 {
    %0 = load p0 [6*i0 + k] : f32
    %1 = load p1 [6*j + k] : f32
    %2 = reduce_dot %0, %1 : f32
  }
  contract [4, 6] into b1 {
    %3 = load p0 [6*i0 + k] : f32
    %4 = load p2 [6*j + k] : f32
    %5 = reduce_dot %3, %4 : f32
  }
  loop [4] {
    %6 = load b0 [j] : f32
    %7 = load p3 [j] : f32
    %8 = add %6, %7 : f32
    %9 = sigmoid %8 : f32
    %10 = mul %8, %9 : f32
    %11 = load b1 [j] : f32
    %12 = mul %10, %11 : f32
    store p4 [4*i0 + j] = %12
  }
}
)");
  Values x, w, v, b = {0.5, -1, 2, 0};
  for (int i = 0; i < 30; ++i) x.push_back((i * 7 % 11) / 4.0 - 1);
  for (int i = 0; i < 24; ++i) w.push_back((i * 5 % 13) / 8.0 - 0.5), v.push_back((i * 3 % 7) / 4.0 - 1);
  run.Set(0, x), run.Set(1, w), run.Set(2, v), run.Set(3, b);
  ASSERT_TRUE(run.Go());
  const Values got = run.Get();
  for (int m = 0; m < 5; ++m) {
    for (int n = 0; n < 4; ++n) {
      double gate = b[n], up = 0;
      for (int k = 0; k < 6; ++k) gate += x[6 * m + k] * w[6 * n + k], up += x[6 * m + k] * v[6 * n + k];
      EXPECT_NEAR(got[4 * m + n], gate / (1 + std::exp(-gate)) * up, 1e-5);
    }
  }
}

TEST(Contract, BatchesBroadcastAndStayRows) {
  Program run(R"(graph @f(%a: f32[2, 3, 4, 5], %b: f32[3, 5, 6]) {
  %0 = aten.matmul(%a, %b) : f32[2, 3, 4, 6]
  return %0
})");
  ASSERT_EQ(run.launches(), 1u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  Values a, b;
  for (int i = 0; i < 120; ++i) a.push_back(i % 7 - 3);
  for (int i = 0; i < 90; ++i) b.push_back(i % 5 - 2);
  run.Set(0, a), run.Set(1, b);
  ASSERT_TRUE(run.Go());
  const Values got = run.Get();
  for (int i = 0; i < 2 * 3 * 4 * 6; ++i) {
    const int n = i % 6, m = i / 6 % 4, h = i / 24 % 3, o = i / 72;
    double want = 0;
    for (int k = 0; k < 5; ++k) want += a[((o * 3 + h) * 4 + m) * 5 + k] * b[(h * 5 + k) * 6 + n];
    EXPECT_EQ(got[i], want) << i;
  }
}

TEST(Contract, ScaledAdditionsFollow) {
  Program run(R"(graph @f(%c: f32[3], %a: f32[2, 4], %b: f32[4, 3]) {
  %0 = aten.addmm(%c, %a, %b, 0.5, 2.0) : f32[2, 3]
  return %0
})");
  ASSERT_EQ(run.launches(), 1u);
  run.Set(0, {10, 20, 30});
  run.Set(1, {1, 2, 3, 4, 5, 6, 7, 8});
  run.Set(2, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
  ASSERT_TRUE(run.Go());
  EXPECT_EQ(run.Get(), (Values{15, 22, 29, 31, 38, 45}));
}

// Weights of 8 bits are never written out as floats.
TEST(Contract, DecodesWeightsAsItReadsThem) {
  Program run(R"(graph @f(%x: f32[3, 6], %w: i8[4, 6] weight "w", %s: f32[4, 1] weight "s") {
  %0 = aten.to.dtype(%w, dtype f32, false, false, none) : f32[4, 6]
  %1 = aten.mul.Tensor(%0, %s) : f32[4, 6]
  %2 = aten.linear(%x, %1, none) : f32[3, 4]
  return %2
})");
  EXPECT_EQ(run.launches(), 1u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u);
  Values x, w;
  for (int i = 0; i < 18; ++i) x.push_back((i * 7 % 11) / 4.0 - 1);
  for (int i = 0; i < 24; ++i) w.push_back(i * 37 % 255 - 127);
  const Values s = {0.5, 0.25, 2, 1};
  run.Set(0, x), run.Set(1, w), run.Set(2, s);
  ASSERT_TRUE(run.Go());
  const Values got = run.Get();
  for (int m = 0; m < 3; ++m) {
    for (int n = 0; n < 4; ++n) {
      double want = 0;
      for (int k = 0; k < 6; ++k) want += x[6 * m + k] * w[6 * n + k] * s[n];
      EXPECT_NEAR(got[4 * m + n], want, 1e-3);
    }
  }
}

TEST(Contract, DecodesThroughViews) {
  Program run(R"(graph @f(%x: f32[3, 6], %w: i8[4, 6] weight "w") {
  %0 = aten.to.dtype(%w, dtype f32, false, false, none) : f32[4, 6]
  %1 = aten.t(%0) : f32[6, 4] strides [1, 6]
  %2 = aten.mm(%x, %1) : f32[3, 4]
  return %2
})");
  EXPECT_EQ(run.launches(), 1u) << run.KernelText();
  EXPECT_EQ(run.aten_steps(), 0u) << run.KernelText();
}

// What is needed elsewhere as well is made once, and a cast that makes nothing smaller is no decoding.
TEST(Contract, ReadsFromMemoryWhatOthersNeed) {
  Program run(R"(graph @f(%x: f32[3, 6], %w: f32[4, 6] weight "w") {
  %0 = aten.mul.Tensor(%w, number 2.0) : f32[4, 6]
  %1 = aten.linear(%x, %0, none) : f32[3, 4]
  return %1
})");
  EXPECT_EQ(run.launches(), 2u) << run.KernelText();
}

// Rows that are given out with other strides still share their right operand.
TEST(Contract, RowsThatShareTheRightOperandComeLast) {
  Program run(R"(graph @f(%a: f32[3, 4, 5], %b: f32[3, 6, 5]) {
  %0 = aten.transpose.int(%b, 1, 2) : f32[3, 5, 6] strides [30, 1, 5]
  %1 = aten.bmm(%a, %0) : f32[3, 4, 6]
  %2 = aten.transpose.int(%1, 0, 1) : f32[4, 3, 6] strides [6, 24, 1]
  %3 = aten.relu(%2) : f32[4, 3, 6]
  return %3
})");
  ASSERT_EQ(run.aten_steps(), 0u) << run.KernelText();
  EXPECT_EQ(run.launches(), 1u) << run.KernelText();
}

TEST(Contract, LeavesProductsThatTheTargetDoesNotTake) {
  const auto graph = Parse(R"(graph @f(%a: bf16[4, 5], %w: bf16[6, 5]) {
  %0 = aten.linear(%a, %w, none) : bf16[4, 6]
  return %0
})");
  ASSERT_TRUE(graph) << graph.error().ToText();
  std::map<NodeId, std::string> reasons;
  const auto left =
      Fuse(*graph, &reasons, [](DType dtype, const Dim& rows) { return dtype != DType::kBF16 || rows == Dim(3); });
  ASSERT_TRUE(left);
  EXPECT_EQ(left->launches.size(), 0u);
  EXPECT_EQ(reasons.begin()->second, "PyTorch's library multiplies these faster");
  EXPECT_EQ(Fuse(*graph, nullptr, [](DType, const Dim& rows) { return rows == Dim(4); })->launches.size(), 1u);
}

// What a fold needs, and operands that no vector can read, stay as they are.
TEST(Contract, LeavesWhatNoTileFits) {
  Program vectors(R"(graph @f(%a: f32[4, 5], %b: f32[5, 1]) {
  %0 = aten.mm(%a, %b) : f32[4, 1]
  return %0
})");
  EXPECT_EQ(vectors.launches(), 0u);
  Program scattered(R"(graph @f(%a: f32[4, 5] strides [1, 4], %b: f32[5, 3] strides [1, 5]) {
  %0 = aten.mm(%a, %b) : f32[4, 3]
  return %0
})");
  EXPECT_EQ(scattered.launches(), 0u);
  Program integers(R"(graph @f(%a: i64[4, 5], %b: i64[5, 3]) {
  %0 = aten.mm(%a, %b) : i64[4, 3]
  return %0
})");
  EXPECT_EQ(integers.launches(), 0u);
  Program folded(R"(graph @f(%a: f32[4, 5], %b: f32[5, 3]) {
  %0 = aten.mm(%a, %b) : f32[4, 3]
  %1 = aten.softmax.int(%0, -1, none) : f32[4, 3]
  return %1
})");
  EXPECT_EQ(folded.launches(), 2u);
}

// Attention, against what its definition says in double.
struct AttentionCase {
  const char* name;
  const char* mask;      ///< type of the mask, or none
  const char* rest;      ///< arguments after the mask
  int64_t heads, key_heads;
  bool is_causal;
};
class Attentions : public testing::TestWithParam<AttentionCase> {};

TEST_P(Attentions, AreOneKernel) {
  const AttentionCase& c = GetParam();
  constexpr int64_t kBatch = 2, kRows = 3, kKeys = 5, kDepth = 4, kWidth = 6;
  const std::string mask = c.mask;
  Program run(fmt::format(R"(graph @f(%q: f32[2, {0}, 3, 4], %k: f32[2, {1}, 5, 4], %v: f32[2, {1}, 5, 6]{2}) {{
  %0 = aten.scaled_dot_product_attention(%q, %k, %v, {3}, {4}) : f32[2, {0}, 3, 6]
  return %0
}})",
                          c.heads, c.key_heads, mask == "none" ? "" : ", %m: " + mask, mask == "none" ? "none" : "%m",
                          c.rest));
  ASSERT_EQ(run.launches(), 1u);
  EXPECT_EQ(run.aten_steps(), 0u);
  std::mt19937 random(3);
  const auto fill = [&](int64_t count) {
    Values values(static_cast<size_t>(count));
    for (double& x : values) x = static_cast<double>(static_cast<int>(random() % 17) - 8) / 8;
    return values;
  };
  const Values q = fill(kBatch * c.heads * kRows * kDepth), k = fill(kBatch * c.key_heads * kKeys * kDepth),
               v = fill(kBatch * c.key_heads * kKeys * kWidth);
  run.Set(0, q), run.Set(1, k), run.Set(2, v);
  const bool is_bool = mask.starts_with("bool");
  Values m;
  if (mask != "none") {
    m = fill(kRows * kKeys);
    // Nothing is left of the last row.
    for (int64_t i = 0; is_bool && i < kRows * kKeys; ++i) m[i] = i < (kRows - 1) * kKeys && m[i] > -0.2;
    // Keys from the second to the third, then to the fourth; none in the last row.
    const bool hides = std::string(c.name) == "Hidden";
    for (int64_t i = 0; hides && i < kRows * kKeys; ++i) {
      const int64_t row = i / kKeys, key = i % kKeys;
      if (key < 1 || key > 2 + row || row == kRows - 1) m[i] = -kInf;
    }
    run.Set(3, m);
  }
  ASSERT_TRUE(run.Go());
  const Values got = run.Get();
  for (int64_t b = 0; b < kBatch * c.heads; ++b) {
    const int64_t key_head = b / c.heads * c.key_heads + b % c.heads / (c.heads / c.key_heads);
    for (int64_t r = 0; r < kRows; ++r) {
      Values weights(kKeys);
      double sum = 0;
      for (int64_t t = 0; t < kKeys; ++t) {
        double score = 0;
        for (int64_t d = 0; d < kDepth; ++d)
          score += q[(b * kRows + r) * kDepth + d] * k[(key_head * kKeys + t) * kDepth + d];
        score *= 0.5;
        if (mask != "none" && !is_bool) score += m[r * kKeys + t];
        const bool is_seen = !(is_bool && m[r * kKeys + t] == 0) && !(c.is_causal && t > r);
        weights[t] = is_seen ? std::exp(score) : 0;
        sum += weights[t];
      }
      for (int64_t n = 0; n < kWidth; ++n) {
        double want = 0;
        for (int64_t t = 0; t < kKeys; ++t) want += weights[t] * v[(key_head * kKeys + t) * kWidth + n];
        EXPECT_NEAR(got[(b * kRows + r) * kWidth + n], sum == 0 ? 0 : want / sum, 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Attentions,
                         testing::Values(AttentionCase{"Plain", "none", "0.0, false, none, false", 2, 2, false},
                                         AttentionCase{"Causal", "none", "0.0, true, none, false", 2, 2, true},
                                         AttentionCase{"Shared", "none", "0.0, false, 0.5, true", 4, 2, false},
                                         AttentionCase{"SharedByAll", "none", "0.0, false, none, true", 4, 1, false},
                                         AttentionCase{"Masked", "bool[3, 5]", "0.0, false, none, false", 2, 2, false},
                                         AttentionCase{"Hidden", "f32[3, 5]", "0.0, false, none, false", 2, 2, false},
                                         AttentionCase{"Biased", "f32[1, 1, 3, 5]", "0.0, false, none, true", 4, 2,
                                                       false}),
                         [](const auto& info) { return info.param.name; });

TEST(Attention, StaysWhereItDrawsNumbers) {
  Program run(R"(graph @f(%q: f32[2, 3, 4], %k: f32[2, 5, 4], %v: f32[2, 5, 6]) {
  %0 = aten.scaled_dot_product_attention(%q, %k, %v, none, 0.5, false, none, false) : f32[2, 3, 6]
  return %0
})");
  EXPECT_EQ(run.launches(), 0u);
}

}  // namespace
}  // namespace ingot::compiler
