// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/unordered/unordered_flat_set.hpp>
#include <vector>

namespace ingot::client {

/// Tells the objects that this thread has made since `Start` from those that were there before, for
/// instances of classes that a class statement made: these are allocated one by one, where lists
/// and the like may be taken from those that Python keeps for reuse. It listens to Python's
/// allocator for objects; needs the GIL.
class MadeObjects {
 public:
  MadeObjects() = default;
  ~MadeObjects() { Stop(); }
  MadeObjects(const MadeObjects&) = delete;
  MadeObjects& operator=(const MadeObjects&) = delete;

  /// Does nothing where this thread is at it already, or where a tool (tracemalloc) has put itself
  /// in front.
  void Start();
  void Stop();
  /// Whether an instance was made since; true where nobody listens.
  bool Contain(PyObject* instance);

 private:
  std::vector<const void*> blocks_;               ///< in the order in which they were handed out
  boost::unordered_flat_set<const void*> known_;  ///< blocks that were asked for and found
  bool is_running_ = false;
};

}  // namespace ingot::client
