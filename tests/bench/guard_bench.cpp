// SPDX-License-Identifier: Apache-2.0
// Nanoseconds that the guards of a call cost: four tensors with two symbolic dims (goal: 100 or
// less), and a proved range over those. Prints the median and the least of many rounds.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "client/lib/run/program.h"
#include "compiler/ir/text.h"
#include "compiler/plan/plan.h"
#include "guards/guard_set.h"
#include "proto/artifact_file.h"

namespace ingot::client {
namespace {

constexpr std::string_view kGraph = R"(graph @f(%x: f32[s0, s1, 64], %mask: bool[s0, s1], %bias: f32[s1, 64],
    %table: i64[s0, s1]) symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
  %0 = aten.add.Tensor(%x, %bias, number 1) : f32[s0, s1, 64]
  return %0, %mask, %table
}
)";

Result<std::shared_ptr<Program>> Make() {
  TRY_ASSIGN(const compiler::Graph graph, compiler::Parse(kGraph));
  compiler::Fused fused;
  for (const compiler::NodeId id : graph.order()) fused.steps.push_back({false, 0, id});
  TRY_ASSIGN(const auto plan, compiler::BuildPlan(graph, fused, {}));
  flatbuffers::FlatBufferBuilder builder;
  proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, &plan));
  const Buffer bytes = proto::PackArtifact({{builder.GetBufferPointer(), builder.GetSize()}, {}, {}});
  TRY_ASSIGN(auto artifact, LoadedArtifact::Open(Bytes(bytes)));
  return Program::Bind(std::move(artifact), {});
}

template <typename F>
void Measure(std::string_view what, F call) {
  constexpr int kRounds = 200, kCalls = 10000;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    rounds.push_back(spent.count() / kCalls);
  }
  std::ranges::sort(rounds);
  fmt::print("{:<48} {:7.1f} ns median {:7.1f} ns least\n", what, rounds[kRounds / 2], rounds[0]);
}

int Run() {
  const auto program = Make();
  if (!program) {
    fmt::print(stderr, "guard bench: {}\n", program.error().ToText());
    return 1;
  }
  const at::Tensor x = at::zeros({4, 33, 64}), mask = at::zeros({4, 33}, at::kBool), bias = at::zeros({33, 64}),
                   table = at::zeros({4, 33}, at::kLong);
  const at::Tensor* inputs[] = {&x, &mask, &bias, &table};
  int64_t symbols[2] = {0, 0};
  size_t held = 0;
  Measure("guards of 4 tensors, 2 symbolic dims", [&] { held += (*program)->Accepts(inputs, 4, symbols); });
  const auto range =
      guards::GuardSet::Parse("s0 >= 2 and s0 <= 64 and s1 >= 2 and s1 <= 512 and s0*s1 <= 8192 and s1 % 3 == 0");
  if (!range) return 1;
  Measure("a proved range of 6 guards over 2 symbols", [&] { held += range->Holds(symbols); });
  if (held != 2u * 200 * 10000) {
    fmt::print(stderr, "guard bench: guards that hold were refused\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace ingot::client

int main() { return ingot::client::Run(); }
