// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ingot::client {

/// What this machine can do at most, measured: no step of a plan is faster for long. Rates are per second; 0: the
/// machine cannot.
struct Roofs {
  double read_bytes = 0;  ///< from memory, beyond all caches
  double copy_bytes = 0;  ///< read and written
  double f32_flops = 0;   ///< multiply-adds of full vectors, two operations each
  double bf16_flops = 0;  ///< dot products of bf16 pairs, summed in f32
};

/// Measures with `threads` threads at once, the best of a few tries of some milliseconds: less than 0.3 s on an idle
/// machine. Takes up to 256 MiB of memory meanwhile; less where there is not so much.
Roofs MeasureRoofs(int threads);

}  // namespace ingot::client
