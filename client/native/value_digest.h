// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"

namespace ingot::client {

/// Digest of a code object: bytecode, constants, names and signature; not line numbers, file
/// name or an unused docstring, so that an edited comment still hits and an edited body misses.
Digest DigestOfCode(PyObject* code);

/// Turns Python values into bytes that are equal exactly when the values mean the same to a
/// traced program, in this process or another. Objects are followed through `__dict__`;
/// tensors count by metadata, modules and classes by name, functions by name and code.
/// Needs the GIL; never runs user code except `__dict__` reads and repr of torch's own types.
class ValueWriter {
 public:
  /// Appends one value. Never fails: what cannot be digested is written as its type and listed.
  void Write(PyObject* value);
  /// Digest of all bytes so far.
  Digest Finish() const { return DigestOf(Bytes(bytes_)); }
  void Clear() { bytes_.clear(); }
  /// Type names of values that could not be digested, in order found.
  const std::vector<std::string>& opaque() const { return opaque_; }

 private:
  void WriteTag(char tag) { bytes_.push_back(static_cast<uint8_t>(tag)); }
  void WriteText(std::string_view text);
  void WriteName(PyObject* object, const char* attribute);
  bool WriteScalar(PyObject* value);
  bool WriteContainer(PyObject* value);
  bool WriteNamed(PyObject* value);
  void WriteDict(PyObject* dict);
  void WriteObject(PyObject* value);

  Buffer bytes_;
  /// Objects already written: a second sight is a reference, which also ends cycles.
  std::unordered_map<PyObject*, size_t> seen_;
  std::vector<std::string> opaque_;
  int depth_ = 0;
};

/// A few characters that show a value to people: "SiLU", "1e-06", "'gelu'".
std::string ShortText(PyObject* value);

}  // namespace ingot::client
