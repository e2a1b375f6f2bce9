// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>

namespace ingot::client {

/// Tells whether a dict was written to since it was marked, in about a nanosecond. Needs the GIL
/// throughout, and the dict to live.
///
/// Python 3.11 gives every dict a number that each write changes. Later versions drop it, and tell
/// whoever asks for it of each write instead; those are counted here. Python 3.13 tells nobody of
/// writes to attributes that lie in their object, so those are compared as a whole.
class DictMark {
 public:
  explicit DictMark(PyObject* dict);

  /// Nobody has written to the dict since Set(); false before that, and where nobody can tell.
  bool Holds() const;
  void Set();

  /// Changes with every write to a dict that has a mark; 0 where nobody counts all of them.
  static uint64_t Writes();

 private:
  PyObject* dict_;
  const uint64_t* now_;
  uint64_t then_ = 0;
  std::shared_ptr<uint64_t> counted_;  ///< where writes are counted; null where the dict has it
  std::string values_;                 ///< those that lay in the object, as bytes
};

}  // namespace ingot::client
