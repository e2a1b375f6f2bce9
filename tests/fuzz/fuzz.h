// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/bytes.h"

/// One target for each parser of bytes that come from outside the process: `<noun>_fuzz.cpp`
/// defines both functions below and checks more than that nothing crashes. Linked with replay.cpp
/// it is a test of every preset, linked with libFuzzer a fuzzer (tools/fuzz).

/// Reads one input and aborts when a property does not hold. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ingot::fuzz {

/// Inputs written by builders, where a file of the corpus would go stale with its schema. The
/// target must accept every one.
std::vector<Buffer> Seeds();

/// Whether the last input was accepted: seeds that are refused would test nothing.
inline bool accepted = false;

/// Aborts, with the reason, unless `holds`.
inline void Ensure(bool holds, const std::string& property) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", property.c_str());
  std::abort();
}

}  // namespace ingot::fuzz
