// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "compiler/compile.h"
#include "compiler/ir/text.h"
#include "compiler/plan/plan.h"
#include "proto/artifact_file.h"

namespace ingot::client {

/// An artifact of the graph in `text`, for this machine, through the whole compiler, with code of its own for `gears`.
inline Buffer CompiledArtifact(std::string_view text, std::vector<std::vector<int64_t>> gears = {}) {
  auto graph = compiler::Parse(text);
  auto target = compiler::TargetSpec::Host();
  EXPECT_TRUE(graph) << graph.error().ToText();
  EXPECT_TRUE(target) << target.error().ToText();
  if (!graph || !target) return {};
  compiler::CompileOptions options;
  options.target = *target;
  options.threads = 1;
  options.gears = std::move(gears);
  auto artifact = compiler::Compile(*graph, options);
  EXPECT_TRUE(artifact) << artifact.error().ToText();
  return artifact ? std::move(artifact->bytes) : Buffer();
}

/// As above, but every node stays an ATen call: what a graph of unknown operators becomes.
inline Buffer AtenArtifact(std::string_view text) {
  auto graph = compiler::Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText();
  if (!graph) return {};
  compiler::Fused fused;
  for (const compiler::NodeId id : graph->order()) fused.steps.push_back({false, 0, id});
  auto plan = compiler::BuildPlan(*graph, fused, {});
  EXPECT_TRUE(plan) << plan.error().ToText();
  if (!plan) return {};
  Buffer constants;
  for (const compiler::Input& input : graph->inputs) {
    if (input.kind != compiler::InputKind::kConstant) continue;
    constants.resize((constants.size() + 63) / 64 * 64);
    constants.insert(constants.end(), input.data.begin(), input.data.end());
  }
  flatbuffers::FlatBufferBuilder builder;
  proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, &*plan));
  return proto::PackArtifact({{builder.GetBufferPointer(), builder.GetSize()}, {}, constants});
}

}  // namespace ingot::client
