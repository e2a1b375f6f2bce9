// SPDX-License-Identifier: Apache-2.0
// Manifests of artifacts, as a client admits them. The file's digests do not matter here.
#include "client/lib/artifact/manifest_check.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"
#include "proto/message.h"
#include "tests/fuzz/artifacts.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

constexpr uint64_t kConstantsBytes = 4096;

/// Follows every reference that an executor follows.
void Walk(const proto::ManifestT& m) {
  const auto follow = [](const auto& list, uint64_t index) -> const auto& {
    Ensure(index < list.size(), "what is admitted refers to what there is");
    return list[index];
  };
  for (const auto& value : m.values) {
    for (const uint32_t dim : value->sizes) follow(m.dims, dim);
    for (const uint32_t dim : value->strides) follow(m.dims, dim);
    follow(m.dims, value->offset);
    follow(m.dims, follow(m.storages, value->storage)->bytes_dim);
  }
  for (const auto* bound : {&m.inputs, &m.weights}) {
    for (const auto& spec : *bound) follow(m.values, spec->value);
  }
  for (const auto& source : m.symbols) {
    follow(follow(m.values, follow(m.inputs, source.input())->value)->sizes, source.dim());
  }
  for (const auto& constant : m.constants) {
    follow(m.values, constant->value);
    Ensure(constant->offset <= kConstantsBytes && constant->bytes <= kConstantsBytes - constant->offset,
           "constants lie in their section");
  }
  const auto follow_cost = [&](const std::unique_ptr<proto::CostT>& cost) {
    if (cost == nullptr) return;
    if (cost->flops >= 0) follow(m.dims, static_cast<uint64_t>(cost->flops));
    for (const auto* list : {&cost->reads, &cost->writes}) {
      for (const proto::Moved& moved : *list) {
        follow(m.dims, moved.range());
        follow(m.dims, moved.accessed());
      }
    }
  };
  for (const auto& kernel : m.kernels) follow_cost(kernel->cost);
  for (const auto& step : m.steps) {
    follow_cost(step->cost);
    for (const uint32_t value : step->results) follow(m.values, value);
    for (const uint32_t value : step->buffers) follow(m.values, value);
    for (const uint32_t value : step->memories) follow(m.values, value);
    for (const uint32_t value : step->targets) follow(m.values, value);
    for (const uint32_t dim : step->symbols) follow(m.dims, dim);
    const bool in_place = step->kind == proto::StepKind::Aten && step->inplace >= 0;
    if (in_place) follow(step->args, static_cast<uint64_t>(step->inplace));
    if (step->kind == proto::StepKind::Kernel) follow(m.kernels, step->kernel);
  }
  for (const uint32_t value : m.outputs) follow(m.values, value);
}

}  // namespace

std::vector<Buffer> Seeds() {
  std::vector<Buffer> seeds;
  for (const Buffer& artifact : SmallArtifacts()) {
    const Bytes manifest = proto::OpenArtifact(artifact)->manifest;
    seeds.emplace_back(manifest.begin(), manifest.end());
  }
  return seeds;
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const Buffer bytes(data, data + size);
  const auto* const manifest = proto::ReadMessage<proto::Manifest>(bytes);
  if (manifest == nullptr || !client::CheckManifest(*manifest, fuzz::kConstantsBytes)) return 0;
  fuzz::accepted = true;
  proto::ManifestT unpacked;
  manifest->UnPackTo(&unpacked);
  fuzz::Walk(unpacked);
  return 0;
}
