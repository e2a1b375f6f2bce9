// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>

namespace ingot::client {

/// A number that changes whenever a dict is written to, for as long as this object lives.
///
/// Python 3.11 keeps one in every dict. Later versions drop it and tell whoever asks for it of each
/// write to a dict instead; those are counted here. Needs the GIL throughout.
class DictVersion {
 public:
  /// Keeps no reference to `dict`, which must live where Now() is asked for.
  explicit DictVersion(PyObject* dict);

  /// 0: nobody can tell.
  uint64_t Now() const { return *now_; }

  /// Of all dicts that have a DictVersion: while it stays the same, so does every one of theirs.
  /// 0: nobody counts.
  static uint64_t OfAll();

 private:
  const uint64_t* now_;
  std::shared_ptr<uint64_t> counted_;  ///< where writes are counted; null where the dict has it
};

}  // namespace ingot::client
