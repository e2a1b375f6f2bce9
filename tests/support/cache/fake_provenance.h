// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cache/trust/provenance.h"
#include "cache/trust/trust_policy.h"

namespace ingot::cache {

// For tests: provenance of made-up artifacts, and keys that are the same in every run.

inline SigningKey FakeKey(uint8_t number, std::string name) {
  return std::move(*SigningKey::FromSeed(Buffer(32, number), std::move(name)));
}

inline constexpr int64_t kFakeBuilt_s = 1'700'000'000;  // 2023-11-14T22:13:20Z

inline Provenance FakeProvenance(std::string_view artifact = "artifact", std::string_view variant = "variant") {
  Provenance out;
  out.entry_key = {1, 2};
  out.graph_key = {3, 4};
  out.variant = Sha256Of(AsBytes(variant));
  out.artifact = DigestOf(AsBytes(artifact));
  out.artifact_sha256 = Sha256Of(AsBytes(artifact));
  out.artifact_bytes = artifact.size();
  out.host = "build-7";
  out.function = "model.Decoder.forward";
  out.group = "search";
  out.compiler = "ingot 0.1.0 llvm 22.1";
  out.target = "x86-64-v4";
  out.features = {"avx2", "fma"};
  out.cost_us = 1'250'000;
  out.built_s = kFakeBuilt_s;
  out.facts = {{"lld", "22.1.0"}, {"shadow", "equal"}};
  return out;
}

/// What a reader has in hands that was not tampered with.
inline Received FakeReceived(const Provenance& provenance) {
  return {.asked = {provenance.function, provenance.group, provenance.target},
          .entry_key = provenance.entry_key,
          .function = provenance.function,
          .graph_key = provenance.graph_key,
          .artifact = provenance.artifact,
          .variant = provenance.variant};
}

}  // namespace ingot::cache
