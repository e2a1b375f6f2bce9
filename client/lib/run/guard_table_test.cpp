// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/guard_table.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "client/lib/run/program.h"
#include "tests/support/client/test_artifacts.h"

namespace ingot::client {
namespace {

std::shared_ptr<const LoadedArtifact> Open(const Buffer& bytes) {
  auto artifact = LoadedArtifact::Open(Bytes(bytes));
  EXPECT_TRUE(artifact) << artifact.error().ToText();
  return artifact ? *artifact : nullptr;
}

// The whole list, as `as_text("guards")` and `ingot inspect` show it.
TEST(ManifestGuards, PrintEveryCondition) {
  const auto artifact = Open(AtenArtifact(R"(graph @f(%x: f32[s0, 8], %y: bf16[8, s0] strides [1, 8],
      %w: f32[8] weight "a.w")
      symbols(s0 = %x.dim(0)) {
    %0 = aten.add.Tensor(%x, %w, number 1) {inplace = 0} : f32[s0, 8]
    write %x = %0
    return %0, %y
  })"));
  ASSERT_NE(artifact, nullptr);
  EXPECT_EQ(guards::ManifestGuards(artifact->manifest()).ToText(),
            "x.dtype == f32 and x.device == cpu and x.rank == 2 "
            "and y.dtype == bf16 and y.device == cpu and y.rank == 2 "
            "and x.size(0) == s0 and x.size(1) == 8 and x.stride(0) == 8 and x.stride(1) == 1 "
            "and y.size(0) == 8 and y.size(1) == s0 and y.stride(0) == 1 and y.stride(1) == 8 "
            "and apart(x, y) and apart(x, 'a.w')");
}

/// A random graph of two or three inputs over two symbols, and what its inputs must be.
struct Case {
  struct Tensor {
    at::ScalarType dtype;
    std::vector<guards::Dim> sizes, strides;
  };
  std::string text;
  std::vector<Tensor> inputs;
};

class CaseMaker {
 public:
  explicit CaseMaker(std::mt19937& random) : random_(random) {}

  Case Make() {
    Case made;
    const bool is_template = Pick(2) == 0;
    std::string inputs, results;
    const int count = 1 + Pick(3);
    for (int i = 0; i < count; ++i) {
      Case::Tensor tensor = i == 0 && is_template ? Symbolic() : Any(is_template);
      const char* comma = i == 0 ? "" : ", ";
      inputs += fmt::format("{}%x{}: {}[{}] strides [{}]", comma, i, Name(tensor.dtype), Join(tensor.sizes),
                            Join(tensor.strides));
      results += fmt::format("{}%x{}", comma, i);
      made.inputs.push_back(std::move(tensor));
    }
    made.text = fmt::format("graph @f({}){} {{\n  return {}\n}}\n", inputs,
                            is_template ? " symbols(s0 = %x0.dim(0), s1 = %x0.dim(1))" : "", results);
    return made;
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  static std::string Name(at::ScalarType dtype) {
    return dtype == at::kFloat ? "f32" : dtype == at::kLong ? "i64" : "bf16";
  }
  static std::string Join(const std::vector<guards::Dim>& dims) {
    std::string text;
    for (const guards::Dim& dim : dims) text += (text.empty() ? "" : ", ") + dim.ToText();
    return text;
  }
  at::ScalarType DType() { return std::array{at::kFloat, at::kLong, at::kBFloat16}[static_cast<size_t>(Pick(3))]; }

  Case::Tensor Symbolic() {
    const guards::Dim a = guards::Dim::Symbol(0), b = guards::Dim::Symbol(1);
    return Laid(DType(), {a, b, guards::Dim(1 + Pick(3))});
  }
  Case::Tensor Any(bool is_template) {
    std::vector<guards::Dim> sizes;
    const guards::Dim a = guards::Dim::Symbol(0), b = guards::Dim::Symbol(1);
    for (int i = Pick(4); i > 0; --i) {
      const guards::Dim kChoices[] = {guards::Dim(Pick(4)), 2, 1, a, b, a + b, a * b, a + a};
      sizes.push_back(kChoices[Pick(is_template ? 8 : 3)]);
    }
    return Laid(DType(), std::move(sizes));
  }
  /// Dense in some order of the dimensions, or with one expanded.
  Case::Tensor Laid(at::ScalarType dtype, std::vector<guards::Dim> sizes) {
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    if (Pick(2) == 0) std::shuffle(order.begin(), order.end(), random_);
    std::vector<guards::Dim> sorted, strides(sizes.size());
    for (const size_t d : order) sorted.push_back(sizes[d]);
    const std::vector<guards::Dim> dense = guards::ContiguousStrides(sorted);
    for (size_t i = 0; i < order.size(); ++i) strides[order[i]] = dense[i];
    if (!sizes.empty() && Pick(4) == 0) strides[order[0]] = guards::Dim(0);
    return {dtype, std::move(sizes), std::move(strides)};
  }

  std::mt19937& random_;
};

/// A call near the case: often one that fits, often off by one size, stride, type or dimension.
class CallMaker {
 public:
  CallMaker(std::mt19937& random, const Case& made) : random_(random), case_(made) {}

  std::vector<at::Tensor> Make() {
    const std::vector<int64_t> symbols = {Pick(5), Pick(4)};
    const int spoiled = Pick(3) == 0 ? Pick(static_cast<int>(case_.inputs.size())) : -1;
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      tensors.push_back(One(case_.inputs[i], symbols, static_cast<int>(i) == spoiled));
    }
    return tensors;
  }

 private:
  int64_t Pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  at::Tensor One(const Case::Tensor& like, const std::vector<int64_t>& symbols, bool spoil) {
    std::vector<int64_t> sizes, strides;
    for (const guards::Dim& dim : like.sizes) sizes.push_back(dim.Eval(symbols));
    for (const guards::Dim& dim : like.strides) strides.push_back(dim.Eval(symbols));
    at::ScalarType dtype = like.dtype;
    for (size_t d = 0; d < sizes.size(); ++d) {
      // Never used, so anything may stand there.
      if (sizes[d] == 1 && Pick(2) == 0) strides[d] = Pick(50);
    }
    if (spoil) Spoil(sizes, strides, dtype);
    int64_t last = 0;
    bool is_empty = false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      last += std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
      is_empty |= sizes[d] == 0;
    }
    const int64_t offset = Pick(4);
    return at::zeros({offset + (is_empty ? 0 : last + 1)}, dtype).as_strided(sizes, strides, offset);
  }

  void Spoil(std::vector<int64_t>& sizes, std::vector<int64_t>& strides, at::ScalarType& dtype) {
    const auto d = static_cast<size_t>(sizes.empty() ? 0 : Pick(static_cast<int64_t>(sizes.size())));
    switch (sizes.empty() ? Pick(2) : Pick(5)) {
      case 0: dtype = dtype == at::kFloat ? at::kInt : at::kFloat; break;
      case 1:
        sizes.push_back(1);
        strides.push_back(1);
        break;
      case 2: sizes[d] = Pick(4); break;
      case 3: strides[d] = Pick(6); break;
      case 4:
        sizes.pop_back();
        strides.pop_back();
        break;
    }
  }

  std::mt19937& random_;
  const Case& case_;
};

std::vector<int64_t> SymbolsOf(const at::Tensor& first) {
  return {first.dim() > 0 ? first.size(0) : 0, first.dim() > 1 ? first.size(1) : 0};
}

/// What the plan may be run on, said anew: no code of guards/ but the value of a polynomial.
bool MayRun(const Case& made, const std::vector<at::Tensor>& tensors) {
  const std::vector<int64_t> symbols = SymbolsOf(tensors[0]);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Case::Tensor& like = made.inputs[i];
    const at::Tensor& tensor = tensors[i];
    if (tensor.scalar_type() != like.dtype || tensor.dim() != static_cast<int64_t>(like.sizes.size())) return false;
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      if (tensor.size(d) != like.sizes[static_cast<size_t>(d)].Eval(symbols)) return false;
    }
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      if (tensor.numel() > 0 && tensor.stride(d) != like.strides[static_cast<size_t>(d)].Eval(symbols)) return false;
    }
  }
  return true;
}

guards::TensorView ViewOf(const at::Tensor& tensor) {
  const guards::DType dtype = tensor.scalar_type() == at::kFloat  ? guards::DType::kF32
                              : tensor.scalar_type() == at::kLong ? guards::DType::kI64
                              : tensor.scalar_type() == at::kInt  ? guards::DType::kI32
                                                                  : guards::DType::kBF16;
  return {.dtype = dtype,
          .sizes = {tensor.sizes().data(), tensor.sizes().size()},
          .strides = {tensor.strides().data(), tensor.strides().size()}};
}

// A variant takes a call if and only if its guards hold, exact graphs and templates alike; the
// guards as data say the same, and so do the words: none when all hold.
TEST(Guards, DecideAsTheReference) {
  constexpr uint32_t kSeed = 4711;
  std::mt19937 random(kSeed);
  size_t taken = 0, refused = 0;
  for (int round = 0; round < 150; ++round) {
    const Case made = CaseMaker(random).Make();
    const auto artifact = Open(AtenArtifact(made.text));
    ASSERT_NE(artifact, nullptr) << made.text;
    const auto program = Program::Bind(artifact, {});
    ASSERT_TRUE(program) << program.error().ToText() << made.text;
    const guards::GuardSet set = guards::ManifestGuards(artifact->manifest());
    ASSERT_EQ(guards::GuardSet::Parse(set.ToText())->ToText(), set.ToText());
    for (int call = 0; call < 60; ++call) {
      const std::vector<at::Tensor> tensors = CallMaker(random, made).Make();
      std::vector<const at::Tensor*> pointers;
      std::vector<guards::TensorView> views;
      for (const at::Tensor& tensor : tensors) {
        pointers.push_back(&tensor);
        views.push_back(ViewOf(tensor));
      }
      int64_t symbols[2] = {0, 0};
      const bool expected = MayRun(made, tensors);
      const bool accepts = (*program)->Accepts(pointers.data(), pointers.size(), symbols);
      const std::string why = (*program)->Explain(pointers.data(), pointers.size());
      ASSERT_EQ(accepts, expected) << made.text << why << "\nseed " << kSeed;
      ASSERT_EQ(why.empty(), expected) << why;
      if (tensors[0].dim() == static_cast<int64_t>(made.inputs[0].sizes.size())) {
        ASSERT_EQ(set.Holds({SymbolsOf(tensors[0]), views, {}}), expected) << set.ToText() << "\nseed " << kSeed;
      }
      std::vector<at::Tensor> outputs;
      RunFailure failure;
      const RunOutcome outcome = (*program)->Run(pointers.data(), pointers.size(), outputs, failure);
      ASSERT_EQ(outcome == RunOutcome::kServed, expected) << failure.why;
      ++(expected ? taken : refused);
    }
  }
  EXPECT_GT(taken, 3000u);
  EXPECT_GT(refused, 1000u);
}

// What a plan writes must be its alone: windows of one buffer, at every distance.
TEST(Guards, KeepWrittenMemoryApart) {
  const auto artifact = Open(AtenArtifact(R"(graph @f(%x: f32[4], %y: f32[4] strides [2]) {
    %0 = aten.add.Tensor(%x, number 1.0, number 1) {inplace = 0} : f32[4]
    %1 = aten.mul.Tensor(%0, %y) : f32[4]
    write %x = %0
    return %1
  })"));
  ASSERT_NE(artifact, nullptr);
  const auto program = Program::Bind(artifact, {});
  ASSERT_TRUE(program);
  const guards::GuardSet set = guards::ManifestGuards(artifact->manifest());
  EXPECT_NE(set.ToText().find("apart(x, y)"), std::string::npos) << set.ToText();
  const at::Tensor buffer = at::zeros({32});
  size_t apart = 0;
  for (int64_t at_x = 0; at_x < 28; ++at_x) {
    for (int64_t at_y = 0; at_y < 25; ++at_y) {
      const at::Tensor x = buffer.as_strided({4}, {1}, at_x), y = buffer.as_strided({4}, {2}, at_y);
      bool expected = true;  // No element of x lies between the first and the last of y.
      for (int64_t i = 0; i < 4; ++i) expected &= at_x + i < at_y || at_x + i > at_y + 6;
      const at::Tensor* pointers[] = {&x, &y};
      std::vector<at::Tensor> outputs;
      RunFailure failure;
      const RunOutcome outcome = (*program)->Run(pointers, 2, outputs, failure);
      ASSERT_EQ(outcome == RunOutcome::kServed, expected) << at_x << ", " << at_y;
      ASSERT_EQ((*program)->Explain(pointers, 2).empty(), expected);
      guards::TensorView views[] = {ViewOf(x), ViewOf(y)};
      const auto base = static_cast<uintptr_t>(4096);
      views[0].begin = base + 4 * static_cast<uintptr_t>(at_x), views[0].end = views[0].begin + 16;
      views[1].begin = base + 4 * static_cast<uintptr_t>(at_y), views[1].end = views[1].begin + 28;
      ASSERT_EQ(set.Holds({{}, views, {}}), expected);
      apart += expected;
    }
  }
  EXPECT_GT(apart, 100u);
}

}  // namespace
}  // namespace ingot::client
