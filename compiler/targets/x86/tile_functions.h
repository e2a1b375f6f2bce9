// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ingot::compiler::x86 {

/// What a product of tile registers multiplies: pairs of bf16 into f32, or groups of four bytes into i32, each side
/// signed or unsigned.
enum class TileProduct : uint8_t { kBF16, kI8I8, kI8U8, kU8I8, kU8U8 };

/// Functions that stand for the instructions of tile registers, so that their use can be tested on machines that have
/// none. Code that calls them is of this process alone.
struct TileFunctions {
  void (*configure)(const void* configuration);
  void (*release)();
  void (*zero)(int32_t tile);
  void (*load)(int32_t tile, const void* at, int64_t stride);
  void (*store)(int32_t tile, void* at, int64_t stride);
  void (*multiply)(int32_t product, int32_t sum, int32_t left, int32_t right);
};

}  // namespace ingot::compiler::x86
