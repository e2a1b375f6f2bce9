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
  std::atomic<uint64_t> pending_calls{0};    ///< calls that ran eagerly while code for their shape was on its way
  std::atomic<uint64_t> dissenting_calls{0};  ///< calls that ran eagerly since other ranks ran something else
  std::atomic<uint64_t> skipped_watches{0};  ///< native calls on which the policy asked nothing
  /// Calls whose turn it was to be verified and that cannot be: they change Python objects.
  std::atomic<uint64_t> verify_skipped{0};
};
CallCounters& Counters();

/// Adds the type `CallSite` to the extension module: what an engine serves its calls from, and what
/// `ingot.compile` returns for anything that is no module (compiled_module.h).
///
/// A call takes its arguments apart (arguments.h), finds the variants of their shape, and runs the
/// first whose identity checks and guards hold; anything else goes to `owner._miss`, and every n-th
/// call that could run natively to `owner._verify` where that was asked for. Attributes
/// it does not have are looked up on the wrapped target, then among the owner's verbs. Returns 0, or
/// -1 with a Python error set.
int AddCallSiteType(PyObject* module);
PyTypeObject* CallSiteType();

/// The engine of a CallSite; borrowed.
PyObject* EngineOf(PyObject* site);
/// Calls a CallSite, as its vectorcall does.
PyObject* CallThrough(PyObject* site, PyObject* const* args, size_t nargsf, PyObject* kwnames);

}  // namespace ingot::client
