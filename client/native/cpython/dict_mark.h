// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>

namespace ingot::client {

/// Tells whether a dict was written to since it was marked, in about a nanosecond. Needs the GIL
/// throughout, and the dict to live.
///
/// Python 3.11 gives every dict a number that each write changes. Later versions drop it, and tell
/// whoever asks for it of each write instead; those are counted here. Python 3.13 tells nobody of
/// writes to attributes that lie in their object, so these move to the dict.
class DictMark {
 public:
  explicit DictMark(PyObject* dict);

  /// Nobody has written to the dict since Set(); false before that, and where nobody can tell.
  bool Holds() const { return then_ != kUnknown && then_ == *now_; }
  void Set() { then_ = *now_; }

  /// Changes with every write to a dict whose mark is counted.
  static uint64_t Writes();
  bool is_counted() const { return counted_ != nullptr; }

 private:
  static constexpr uint64_t kUnknown = 0;

  const uint64_t* now_;
  uint64_t then_ = kUnknown;
  std::shared_ptr<uint64_t> counted_;  ///< where writes are counted; null where the dict has it
};

}  // namespace ingot::client
