// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/exact_text.h"

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"

namespace ingot::client {

CodeUnits UnitsOf(PyObject* text) {
#if PY_VERSION_HEX < 0x030C0000
  // Those that old functions of the C API made are put in order when they are first used.
  if (PyUnicode_READY(text) != 0) DropError();
#endif
  const auto width = static_cast<size_t>(PyUnicode_KIND(text));
  return {static_cast<uint8_t>(width),
          {static_cast<const char*>(PyUnicode_DATA(text)), width * static_cast<size_t>(PyUnicode_GET_LENGTH(text))}};
}

void AppendText(Buffer& bytes, PyObject* text) {
  const bool is_text = text != nullptr && PyUnicode_Check(text);
  const CodeUnits units = is_text ? UnitsOf(text) : CodeUnits{};
  AppendLittle(bytes, units.width);
  AppendLittle(bytes, static_cast<uint64_t>(units.bytes.size()));
  bytes.insert(bytes.end(), units.bytes.begin(), units.bytes.end());
}

void AddText(Hasher& hasher, PyObject* text) {
  Buffer bytes;
  AppendText(bytes, text);
  hasher.Add(Bytes(bytes));
}

void AppendClassName(Buffer& bytes, PyTypeObject* type) {
  static PyObject* const module = PyUnicode_InternFromString("__module__");
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    PyObject* const dict = DictOf(type);
    AppendText(bytes, dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, module));
    DropError();
    return AppendText(bytes, reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
  }
  // A class made in C says both in its name.
  const std::string_view name = type->tp_name;
  AppendLittle(bytes, static_cast<uint64_t>(name.size()));
  bytes.insert(bytes.end(), name.begin(), name.end());
}

void AddClassName(Hasher& hasher, PyTypeObject* type) {
  Buffer bytes;
  AppendClassName(bytes, type);
  hasher.Add(Bytes(bytes));
}

}  // namespace ingot::client
