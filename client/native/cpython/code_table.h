// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#if PY_VERSION_HEX >= 0x030C0000

#include <cstdint>
#include <vector>

namespace ingot::client {

/// The instructions of one code object by code unit, and how deep the stack is before each: computed once for each
/// code. Needs the GIL.
class CodeTable {
 public:
  struct Entry {
    int depth = -1;  ///< -1 where nothing leads
    int argument = 0;
    uint8_t op = 0;
    bool handles = false;  ///< begins a handler: what ran before it raised
  };

  /// Kept with the code object; null on failure, with a Python error set.
  static const CodeTable* Of(PyCodeObject* code);

  /// At an offset in bytes; null behind the end.
  const Entry* At(int offset) const;

 private:
  CodeTable(PyCodeObject* code, PyObject* bytes);

  void Reach(int64_t unit, int depth);
  void Follow(size_t unit);
  void ReadHandlers(PyObject* table);

  std::vector<Entry> entries_;
  std::vector<size_t> open_;
};

}  // namespace ingot::client

#endif
