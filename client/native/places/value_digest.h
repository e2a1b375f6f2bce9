// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "client/native/cpython/python_ref.h"

namespace ingot::client {

/// Turns Python values into bytes that are equal exactly when the values mean the same to a
/// traced program, in this process or another. Objects are followed through their attributes and
/// slots, buffers (numpy's arrays) by content; tensors count by metadata, modules and classes by
/// name, functions by name, code, defaults and closure.
/// Needs the GIL; never runs user code except `__dict__` reads and what types of libraries say of themselves.
class ValueWriter {
 public:
  /// Appends one value. Never fails: what cannot be digested is written as its type and listed.
  void Write(PyObject* value);
  /// Digest of all bytes so far; nothing where a value among them could not be digested: the bytes are those of
  /// others as well.
  std::optional<Digest> Finish() const {
    return opaque_.empty() ? std::optional(DigestOf(Bytes(bytes_))) : std::nullopt;
  }
  /// The same, or DigestOfUntold().
  Digest FinishOrUntold() const;
  void Clear() {
    bytes_.clear();
    seen_.clear();
    opaque_.clear();
  }
  /// Type names of values that could not be digested, in order found.
  const std::vector<std::string>& opaque() const { return opaque_; }

 private:
  void WriteTag(char tag) { bytes_.push_back(static_cast<uint8_t>(tag)); }
  void WriteCount(Py_ssize_t count) { AppendLittle(bytes_, static_cast<uint64_t>(count)); }
  void WriteBytes(std::string_view bytes);
  void WriteDigest(const Digest& digest);
  void WriteClassName(PyTypeObject* type);
  void WriteOpaque(std::string what);
  void WriteInteger(PyObject* value);
  void WriteFloat(double value) { AppendLittle(bytes_, value); }
  void WritePart(PyObject* value);
  bool WriteScalar(PyObject* value);
  bool WriteContainer(PyObject* value);
  bool WriteNamed(PyObject* value);
  bool WriteKnownObject(PyObject* value);
  void WriteWords(PyObject* value);
  void WriteReduced(PyObject* value);
  void WriteFunction(PyObject* function);
  void WriteClosure(PyObject* function);
  void WriteTensor(PyObject* value);
  void WriteDict(PyObject* dict);
  void WriteSet(PyObject* set);
  void WriteFields(PyObject* value, std::initializer_list<const char*> fields);
  bool WriteBuffer(PyObject* value);
  bool WriteSlots(PyObject* value);
  void WriteAttributes(PyObject* dict);
  void WriteObject(PyObject* value);
  bool WriteElements(PyObject* value);

  Buffer bytes_;
  /// Objects already written: a second sight is a reference, which also ends cycles.
  std::unordered_map<PyObject*, size_t> seen_;
  std::unordered_set<PyObject*> open_;  ///< functions being written
  std::vector<std::string> opaque_;
  int depth_ = 0;
};

/// A digest that equals no other, not even the next of the same value: of what cannot be digested.
Digest DigestOfUntold();
/// How many of them were given in this process: what comes of a look meanwhile has one in it. Needs the GIL.
uint64_t UntoldDigests();

/// A few characters that show a value to people: "SiLU", "1e-06", "'gelu'".
std::string ShortText(PyObject* value);

}  // namespace ingot::client
