// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/artifacts.h"

#include "compiler/compile.h"
#include "compiler/ir/text.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

constexpr std::string_view kExact = R"(graph @exact(%x: f32[4, 8], %w: f32[8] weight "self.w",
    %c: f32[2] constant "0000803f00000040") {
  %0 = aten.mul.Tensor(%x, %w) : f32[4, 8]
  %1 = aten.sum.dim_IntList(%0, [1], false, none) : f32[4]
  return %1, %c
}
)";
constexpr std::string_view kTemplate = R"(graph @template(%x: f32[4, s0], %i: i64[]) symbols(s0 = %x.dim(1)) {
  guard.equal(%i, number 1)
  %0 = aten.silu(%x) : f32[4, s0]
  %1 = aten.mul.Tensor(%0, %x) : f32[4, s0]
  %2, %3 = aten.sort(%1, -1, false) : f32[4, s0], i64[4, s0]
  write %x = %1
  return %2, %3
}
)";

Buffer Compiled(std::string_view text) {
  const auto graph = compiler::Parse(text);
  Ensure(graph.has_value(), graph ? "" : graph.error().ToText());
  auto target = compiler::TargetSpec::Host();
  Ensure(target.has_value(), target ? "" : target.error().ToText());
  auto artifact = compiler::Compile(*graph, {.target = *std::move(target), .threads = 1, .prove = false});
  Ensure(artifact.has_value(), artifact ? "" : artifact.error().ToText());
  return std::move(artifact->bytes);
}

}  // namespace

std::vector<Buffer> SmallArtifacts() { return {Compiled(kExact), Compiled(kTemplate)}; }

}  // namespace ingot::fuzz
