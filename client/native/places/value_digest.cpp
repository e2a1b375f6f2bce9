// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/value_digest.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/exact_text.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/cpython/set_table.h"
#include "client/native/effects/effect_table.h"
#include "client/native/places/code_digest.h"
#include "client/native/places/containers.h"
#include "client/native/places/live_groups.h"
#include "client/native/places/place_access.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

constexpr int kDigestDepthMax = 24;
constexpr size_t kDigestValuesMax = 50'000;

uint64_t untold_digests = 0;

}  // namespace

void ValueWriter::WriteBytes(std::string_view bytes) {
  WriteCount(static_cast<Py_ssize_t>(bytes.size()));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void ValueWriter::WriteDigest(const Digest& digest) {
  AppendLittle(bytes_, digest.low);
  AppendLittle(bytes_, digest.high);
}

void ValueWriter::WriteClassName(PyTypeObject* type) { AppendClassName(bytes_, type); }

void ValueWriter::WriteOpaque(std::string what) {
  WriteTag('?');
  opaque_.push_back(std::move(what));
}

/// A part that may be missing.
void ValueWriter::WritePart(PyObject* value) { value == nullptr ? WriteTag('-') : Write(value); }

void ValueWriter::WriteInteger(PyObject* value) {
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow == 0) return WriteBytes(std::to_string(number));
  constexpr int kBase = 16;  // Python gives decimal digits up to some number alone.
  const PythonRef digits(PyNumber_ToBase(value, kBase));
  DropError();
  AppendText(bytes_, digits.get());
}

bool ValueWriter::WriteScalar(PyObject* value) {
  if (value == Py_None || value == Py_Ellipsis || value == Py_NotImplemented) {
    WriteTag(value == Py_None ? 'N' : value == Py_Ellipsis ? '.' : '!');
  } else if (PyBool_Check(value)) {
    WriteTag(value == Py_True ? 'T' : 'F');
  } else if (PyLong_CheckExact(value)) {
    WriteTag('i');
    WriteInteger(value);
  } else if (PyFloat_CheckExact(value)) {
    WriteTag('f');
    WriteFloat(PyFloat_AS_DOUBLE(value));
  } else if (PyComplex_CheckExact(value)) {
    const Py_complex number = PyComplex_AsCComplex(value);
    WriteTag('c');
    WriteFloat(number.real);
    WriteFloat(number.imag);
  } else if (PyUnicode_CheckExact(value)) {
    WriteTag('s');
    AppendText(bytes_, value);
    // The name of a process group may mean another group in another process.
    if (const std::string* group = IdentityOfGroup(ViewOf(value))) {
      WriteTag('g');
      WriteBytes(*group);
    }
  } else if (PyBytes_CheckExact(value)) {
    WriteTag('b');
    WriteBytes({PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value))});
  } else if (PyRange_Check(value)) {
    WriteTag('R');
    WriteFields(value, {"start", "stop", "step"});
  } else if (IsTorchAtom(value)) {
    WriteTag('r');
    WriteClassName(Py_TYPE(value));
    WriteWords(value);
  } else {
    return false;
  }
  return true;
}

/// Names of items are data: all of them count.
void ValueWriter::WriteDict(PyObject* dict) {
  WriteTag('{');
  WriteCount(PyDict_GET_SIZE(dict));
  // An OrderedDict has an order of its own.
  const PythonRef order = PyODict_Check(dict) ? ElementsOf(dict) : PythonRef();
  if (order) Write(order.get());
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &at, &key, &value)) {
    Write(key);
    Write(value);
  }
}

/// A set has no order of its own: its members' digests are sorted.
void ValueWriter::WriteSet(PyObject* set) {
  std::vector<Digest> digests;
  for (const setentry& place : PlacesOf(set)) {
    PyObject* const item = MemberAt(place);
    if (item == nullptr) continue;
    ValueWriter member;
    member.depth_ = depth_;
    member.Write(item);
    if (!HasKnownHash(item)) member.WriteCount(static_cast<Py_ssize_t>(place.hash));
    opaque_.insert(opaque_.end(), member.opaque().begin(), member.opaque().end());
    digests.push_back(member.Finish().value_or(Digest()));
  }
  std::sort(digests.begin(), digests.end());
  WriteTag(PyFrozenSet_Check(set) ? 'Z' : 'S');
  WriteCount(static_cast<Py_ssize_t>(digests.size()));
  for (const Digest& digest : digests) WriteDigest(digest);
}

bool ValueWriter::WriteContainer(PyObject* value) {
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    WriteTag(PyTuple_CheckExact(value) ? '(' : '[');
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
    WriteCount(count);
    for (Py_ssize_t i = 0; i < count; ++i) {
      // A list may shrink while user code (a repr) runs.
      if (i >= PySequence_Fast_GET_SIZE(value)) break;
      Write(PySequence_Fast_GET_ITEM(value, i));
    }
    return true;
  }
  if (PySlice_Check(value)) {
    WriteTag(':');
    WriteFields(value, {"start", "stop", "step"});
    return true;
  }
  if (PyDict_CheckExact(value)) {
    WriteDict(value);
    return true;
  }
  if (PyAnySet_CheckExact(value)) {
    WriteSet(value);
    return true;
  }
  return false;
}

/// Cells may hold the function itself.
void ValueWriter::WriteClosure(PyObject* function) {
  PyObject* cells = PyFunction_GET_CLOSURE(function);
  if (cells == nullptr || !open_.insert(function).second) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cells); ++i) {
    PyObject* held = PyCell_GET(PyTuple_GET_ITEM(cells, i));
    if (held == nullptr) {
      WriteTag('-');
    } else if (open_.contains(held)) {
      WriteTag('^');
    } else {
      Write(held);
    }
  }
  open_.erase(function);
}

void ValueWriter::WriteFunction(PyObject* function) {
  WriteTag('p');
  const auto* own = reinterpret_cast<PyFunctionObject*>(function);
  WritePart(own->func_module);
  WritePart(own->func_qualname);
  WritePart(NameOfGlobals(own->func_globals));
  WriteDigest(DigestOfCode(PyFunction_GET_CODE(function)));
  WritePart(PyFunction_GET_DEFAULTS(function));
  WritePart(PyFunction_GET_KW_DEFAULTS(function));
  WriteClosure(function);
}

void ValueWriter::WriteTensor(PyObject* value) {
  WriteTag('x');
  WriteClassName(Py_TYPE(value));
  WriteDigest(MetadataOf(value));
  if (!HasPlainMetadata(value)) WriteOpaque(Py_TYPE(value)->tp_name);
}

bool ValueWriter::WriteNamed(PyObject* value) {
  const bool has_name = PyType_Check(value) || PyModule_Check(value) || PyFunction_Check(value);
  if (has_name && !HasOwnName(value)) WriteTag('~');
  if (PyType_Check(value)) {
    WriteTag('t');
    WriteClassName(reinterpret_cast<PyTypeObject*>(value));
  } else if (PyModule_Check(value)) {
    WriteTag('m');
    WritePart(NameOfGlobals(PyModule_GetDict(value)));
  } else if (PyFunction_Check(value)) {
    WriteFunction(value);
  } else if (PyMethod_Check(value)) {
    WriteTag('M');
    Write(PyMethod_GET_FUNCTION(value));
    Write(PyMethod_GET_SELF(value));
  } else if (PyCFunction_Check(value) || PyObject_TypeCheck(value, &PyMethodDescr_Type) ||
             PyObject_TypeCheck(value, &PyWrapperDescr_Type) || PyObject_TypeCheck(value, &PyGetSetDescr_Type) ||
             PyObject_TypeCheck(value, &PyMemberDescr_Type)) {
    WriteTag('C');
    WriteBytes(EffectTable::NameOf(value));
    WriteFields(value, {"__qualname__"});
  } else if (PyCode_Check(value)) {
    WriteTag('o');
    WriteDigest(DigestOfCode(value));
  } else if (IsTensor(value)) {
    WriteTensor(value);
  } else {
    return false;
  }
  return true;
}

void ValueWriter::Write(PyObject* value) {
  if (WriteScalar(value)) return;
  // Tuples, classes, functions and modules may or may not be shared from one process to the next
  // (constants are merged by the compiler), so only things with identity become references.
  const bool shareable = !PyTuple_Check(value) && !PySlice_Check(value) && !PyType_Check(value) &&
                         !PyFunction_Check(value) && !PyModule_Check(value) && !PyCode_Check(value);
  if (shareable) {
    const auto [it, fresh] = seen_.emplace(value, seen_.size());
    if (!fresh) {
      WriteTag('@');
      AppendLittle(bytes_, static_cast<uint32_t>(it->second));
      return;
    }
  }
  if (depth_ >= kDigestDepthMax || seen_.size() > kDigestValuesMax) {
    return WriteOpaque(std::string(Py_TYPE(value)->tp_name) +
                       (depth_ >= kDigestDepthMax ? " (nested too deep)" : " (too large)"));
  }
  ++depth_;
  if (!WriteContainer(value) && !WriteNamed(value)) WriteObject(value);
  --depth_;
}

Digest DigestOfUntold() {
  ++untold_digests;
  return RandomDigest();
}

uint64_t UntoldDigests() { return untold_digests; }

Digest ValueWriter::FinishOrUntold() const {
  const auto digest = Finish();
  return digest ? *digest : DigestOfUntold();
}

std::string ShortText(PyObject* value) {
  constexpr size_t kTextMax = 60;
  if (PyType_Check(value)) return reinterpret_cast<PyTypeObject*>(value)->tp_name;
  if (PyFunction_Check(value)) {
    const PythonRef name(PyObject_GetAttrString(value, "__qualname__"));
    DropError();
    return name ? std::string(ViewOf(name.get())) : "?";
  }
  const bool simple = value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
                      PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) || THPDtype_Check(value) ||
                      THPDevice_Check(value);
  if (!simple) return IdentityOfGroupObject(value).value_or(Py_TYPE(value)->tp_name);
  std::string text = ReprOf(value);
  if (text.size() > kTextMax) text = text.substr(0, kTextMax - 3) + "...";
  return text;
}

}  // namespace ingot::client
