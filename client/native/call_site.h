// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>

namespace ingot::client {

/// What this process did, across all call sites; the counters of `ingot.stats()` that the hot path
/// keeps. Python adds those of the slow path.
struct CallCounters {
  std::atomic<uint64_t> native_calls{0};
  std::atomic<uint64_t> guard_failures{0};
  std::atomic<uint64_t> value_guard_failures{0};
  std::atomic<uint64_t> failures{0};
  std::atomic<uint64_t> refused_calls{0};    ///< calls of shapes that run eagerly for good
  std::atomic<uint64_t> skipped_watches{0};  ///< native calls on which the policy asked nothing
  /// Calls whose turn it was to be verified and that cannot be: they change Python objects.
  std::atomic<uint64_t> verify_skipped{0};
};
CallCounters& Counters();

/// Adds the type `Compiled` to the extension module: the callable that `ingot.compile` returns.
///
/// A call takes its arguments apart (arguments.h), finds the variants of their shape, and runs the
/// first whose identity checks and guards hold; anything else goes to `owner._miss`, and every n-th
/// call that could run natively to `owner._verify` where that was asked for. Attributes
/// it does not have are looked up on the owner, then on the wrapped target. Returns 0, or -1
/// with a Python error set.
int AddCompiledType(PyObject* module);

}  // namespace ingot::client
