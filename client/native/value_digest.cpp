// SPDX-License-Identifier: Apache-2.0
#include "client/native/value_digest.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace ingot::client {
namespace {

constexpr int kDepthMax = 24;

/// A strong reference that is released at the end of the scope.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {
    if (object_ == nullptr) PyErr_Clear();
  }
  ~Owned() { Py_XDECREF(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

std::string_view TextOf(PyObject* str) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(str, &size);
  if (text == nullptr) {
    PyErr_Clear();
    return "";
  }
  return {text, static_cast<size_t>(size)};
}

std::string Repr(PyObject* value) {
  Owned repr(PyObject_Repr(value));
  return repr ? std::string(TextOf(repr.get())) : std::string("?");
}

/// True when the bytecode loads constant 0; otherwise a string there is only a docstring.
bool UsesFirstConstant(PyObject* bytecode) {
  constexpr uint8_t kLoadConst = 100;
  constexpr uint8_t kExtendedArg = 144;
  const auto* code = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytecode));
  const Py_ssize_t size = PyBytes_GET_SIZE(bytecode);
  for (Py_ssize_t i = 0; i + 1 < size; i += 2) {
    const bool extended = i >= 2 && code[i - 2] == kExtendedArg;
    if (code[i] == kLoadConst && code[i + 1] == 0 && !extended) return true;
  }
  return false;
}

/// A remembered hash() differs from process to process and never steers a program
/// (`_original_object_hash` of Hugging Face's generation configs).
bool IsSaltedHash(PyObject* key, PyObject* value) {
  if (!PyUnicode_Check(key) || !PyLong_CheckExact(value)) return false;
  const std::string_view name = TextOf(key);
  constexpr std::string_view kSuffix = "_hash";
  return name.size() > kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix;
}

void AddConstant(Hasher& hasher, PyObject* constant, ValueWriter& writer) {
  if (PyCode_Check(constant)) {
    const Digest digest = DigestOfCode(constant);
    hasher.Add(digest.low);
    hasher.Add(digest.high);
    return;
  }
  writer.Clear();
  writer.Write(constant);
  const Digest digest = writer.Finish();
  hasher.Add(digest.low);
  hasher.Add(digest.high);
}

}  // namespace

Digest DigestOfCode(PyObject* object) {
  auto* code = reinterpret_cast<PyCodeObject*>(object);
  Hasher hasher;
  for (int count : {code->co_argcount, code->co_posonlyargcount, code->co_kwonlyargcount, code->co_flags}) {
    hasher.Add(static_cast<uint64_t>(count));
  }
  Owned bytecode(PyCode_GetCode(code));
  if (!bytecode) return {};
  hasher.AddField({reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytecode.get())),
                   static_cast<size_t>(PyBytes_GET_SIZE(bytecode.get()))});
  ValueWriter writer;
  const Py_ssize_t constants = PyTuple_GET_SIZE(code->co_consts);
  for (Py_ssize_t i = 0; i < constants; ++i) {
    PyObject* constant = PyTuple_GET_ITEM(code->co_consts, i);
    const bool docstring = i == 0 && (PyUnicode_Check(constant) || constant == Py_None) &&
                           !UsesFirstConstant(bytecode.get());
    if (!docstring) AddConstant(hasher, constant, writer);
  }
  writer.Clear();
  writer.Write(code->co_names);
  for (const char* name : {"co_varnames", "co_freevars", "co_cellvars", "co_exceptiontable"}) {
    Owned value(PyObject_GetAttrString(object, name));
    if (value) writer.Write(value.get());
  }
  const Digest names = writer.Finish();
  hasher.Add(names.low);
  hasher.Add(names.high);
  return hasher.Finish();
}

void ValueWriter::WriteText(std::string_view text) {
  AppendLittle(bytes_, static_cast<uint32_t>(text.size()));
  bytes_.insert(bytes_.end(), text.begin(), text.end());
}

void ValueWriter::WriteName(PyObject* object, const char* attribute) {
  Owned name(PyObject_GetAttrString(object, attribute));
  WriteText(name && PyUnicode_Check(name.get()) ? TextOf(name.get()) : std::string_view("?"));
}

bool ValueWriter::WriteScalar(PyObject* value) {
  if (value == Py_None || value == Py_Ellipsis) {
    WriteTag(value == Py_None ? 'N' : '.');
  } else if (PyBool_Check(value)) {
    WriteTag(value == Py_True ? 'T' : 'F');
  } else if (PyLong_CheckExact(value)) {
    WriteTag('i');
    WriteText(Repr(value));
  } else if (PyFloat_CheckExact(value)) {
    WriteTag('f');
    AppendLittle(bytes_, PyFloat_AS_DOUBLE(value));
  } else if (PyComplex_CheckExact(value)) {
    WriteTag('c');
    WriteText(Repr(value));
  } else if (PyUnicode_CheckExact(value)) {
    WriteTag('s');
    WriteText(TextOf(value));
  } else if (PyBytes_CheckExact(value)) {
    WriteTag('b');
    WriteText({PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value))});
  } else if (THPDtype_Check(value) || THPDevice_Check(value) || THPLayout_Check(value) ||
             THPMemoryFormat_Check(value) || PyRange_Check(value) || PySlice_Check(value)) {
    WriteTag('r');
    WriteText(Repr(value));
  } else {
    return false;
  }
  return true;
}

void ValueWriter::WriteDict(PyObject* dict) {
  WriteTag('{');
  AppendLittle(bytes_, static_cast<uint32_t>(PyDict_GET_SIZE(dict)));
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &at, &key, &value)) {
    if (IsSaltedHash(key, value)) continue;
    Write(key);
    Write(value);
  }
}

bool ValueWriter::WriteContainer(PyObject* value) {
  if (PyTuple_Check(value) || PyList_CheckExact(value)) {
    WriteTag(PyTuple_Check(value) ? '(' : '[');
    if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value)) {
      WriteName(reinterpret_cast<PyObject*>(Py_TYPE(value)), "__qualname__");
    }
    Owned items(PySequence_Fast(value, ""));
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
    AppendLittle(bytes_, static_cast<uint32_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) Write(PySequence_Fast_GET_ITEM(items.get(), i));
    return true;
  }
  if (PyDict_CheckExact(value)) {
    WriteDict(value);
    return true;
  }
  if (PyAnySet_CheckExact(value)) {
    // A set has no order of its own: its members' digests are sorted.
    std::vector<Digest> digests;
    Owned iterator(PyObject_GetIter(value));
    while (iterator) {
      Owned item(PyIter_Next(iterator.get()));
      if (!item) break;
      ValueWriter member;
      member.Write(item.get());
      digests.push_back(member.Finish());
    }
    std::sort(digests.begin(), digests.end());
    WriteTag('S');
    for (const Digest& digest : digests) {
      AppendLittle(bytes_, digest.low);
      AppendLittle(bytes_, digest.high);
    }
    return true;
  }
  return false;
}

bool ValueWriter::WriteNamed(PyObject* value) {
  if (PyType_Check(value)) {
    WriteTag('t');
    WriteName(value, "__module__");
    WriteName(value, "__qualname__");
  } else if (PyModule_Check(value)) {
    WriteTag('m');
    WriteName(value, "__name__");
  } else if (PyFunction_Check(value)) {
    WriteTag('p');
    WriteName(value, "__module__");
    WriteName(value, "__qualname__");
    const Digest digest = DigestOfCode(PyFunction_GET_CODE(value));
    AppendLittle(bytes_, digest.low);
    AppendLittle(bytes_, digest.high);
    if (PyObject* defaults = PyFunction_GET_DEFAULTS(value)) Write(defaults);
    if (PyObject* defaults = PyFunction_GET_KW_DEFAULTS(value)) Write(defaults);
  } else if (PyMethod_Check(value)) {
    WriteTag('M');
    Write(PyMethod_GET_FUNCTION(value));
    Write(PyMethod_GET_SELF(value));
  } else if (PyCFunction_Check(value)) {
    WriteTag('C');
    WriteName(value, "__module__");
    WriteName(value, "__qualname__");
  } else if (PyCode_Check(value)) {
    WriteTag('o');
    const Digest digest = DigestOfCode(value);
    AppendLittle(bytes_, digest.low);
    AppendLittle(bytes_, digest.high);
  } else if (THPVariable_Check(value)) {
    const at::Tensor& tensor = THPVariable_Unpack(value);
    WriteTag('x');
    AppendLittle(bytes_, static_cast<uint8_t>(tensor.scalar_type()));
    AppendLittle(bytes_, static_cast<uint8_t>(tensor.device().type()));
    AppendLittle(bytes_, static_cast<uint8_t>(tensor.layout()));
    if (tensor.layout() == at::kStrided) {
      for (int64_t size : tensor.sizes()) AppendLittle(bytes_, size);
      for (int64_t stride : tensor.strides()) AppendLittle(bytes_, stride);
    }
  } else {
    return false;
  }
  return true;
}

void ValueWriter::WriteObject(PyObject* value) {
  WriteTag('O');
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  WriteName(type, "__module__");
  WriteName(type, "__qualname__");
  PyObject** dict = _PyObject_GetDictPtr(value);
  if (dict != nullptr && *dict == nullptr) {
    WriteTag('-');
  } else if (dict != nullptr) {
    Py_INCREF(*dict);
    Owned hold(*dict);
    WriteDict(*dict);
  } else if (Owned state{PyObject_GetAttrString(value, "__dict__")}; state && PyDict_Check(state.get())) {
    WriteDict(state.get());
  } else {
    WriteTag('?');
    opaque_.push_back(Py_TYPE(value)->tp_name);
    return;
  }
  // Subclasses of containers carry their elements besides their attributes.
  if (PyDict_Check(value)) WriteDict(value);
  if (PyLong_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value)) WriteText(Repr(value));
  if (PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) Write(PyList_GET_ITEM(value, i));
  }
}

void ValueWriter::Write(PyObject* value) {
  if (WriteScalar(value)) return;
  // Tuples, classes, functions and modules may or may not be shared from one process to the next
  // (constants are merged by the compiler), so only things with identity become references.
  const bool shareable = !PyTuple_Check(value) && !PyType_Check(value) && !PyFunction_Check(value) &&
                         !PyModule_Check(value) && !PyCode_Check(value);
  if (shareable) {
    const auto [it, fresh] = seen_.emplace(value, seen_.size());
    if (!fresh) {
      WriteTag('@');
      AppendLittle(bytes_, static_cast<uint32_t>(it->second));
      return;
    }
  }
  if (depth_ >= kDepthMax) {
    WriteTag('?');
    opaque_.push_back(std::string(Py_TYPE(value)->tp_name) + " (nested too deep)");
    return;
  }
  ++depth_;
  if (!WriteContainer(value) && !WriteNamed(value)) WriteObject(value);
  --depth_;
}

std::string ShortText(PyObject* value) {
  constexpr size_t kTextMax = 60;
  if (PyType_Check(value)) return reinterpret_cast<PyTypeObject*>(value)->tp_name;
  if (PyFunction_Check(value)) {
    Owned name(PyObject_GetAttrString(value, "__qualname__"));
    return name ? std::string(TextOf(name.get())) : "?";
  }
  const bool simple = value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
                      PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) ||
                      THPDtype_Check(value) || THPDevice_Check(value);
  if (!simple) return Py_TYPE(value)->tp_name;
  std::string text = Repr(value);
  if (text.size() > kTextMax) text = text.substr(0, kTextMax - 3) + "...";
  return text;
}

}  // namespace ingot::client
