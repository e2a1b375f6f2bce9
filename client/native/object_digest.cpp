// SPDX-License-Identifier: Apache-2.0
// How ValueWriter writes objects: by their attributes, or by what their library says of them.
#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <array>

#include "client/native/drop_error.h"
#include "client/native/live_groups.h"
#include "client/native/origin.h"
#include "client/native/python_ref.h"
#include "client/native/value_digest.h"

namespace ingot::client {
namespace {

/// A remembered hash() differs from process to process and never steers a program
/// (`_original_object_hash` of Hugging Face's generation configs).
bool IsSaltedHash(PyObject* key, PyObject* value) { return PyLong_CheckExact(value) && ViewOf(key).ends_with("_hash"); }

/// Libraries whose values print what they are.
bool IsPrintable(std::string_view module) {
  constexpr std::array<std::string_view, 9> kModules = {"pathlib", "datetime", "decimal",   "fractions", "uuid",
                                                        "re",      "operator", "_operator", "torch"};
  return std::ranges::find(kModules, module) != kModules.end();
}

/// Modules of Python's library whose objects are a program's own state; a lock or a logger is not.
bool HoldsState(std::string_view module) {
  constexpr std::array<std::string_view, 4> kModules = {"types", "collections", "argparse", "builtins"};
  return std::ranges::find(kModules, module) != kModules.end();
}

bool IsEnumMember(PyTypeObject* type) {
  const std::string_view meta = Py_TYPE(type)->tp_name;
  return (meta == "EnumType" || meta == "EnumMeta") && ModuleOf(Py_TYPE(type)) == "enum";
}

/// Calls `visit(name)` for the name of each slot of a class and its bases; stops when it says so.
template <typename Visit>
void EachSlot(PyTypeObject* type, const Visit& visit) {
  for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (DictOf(base) == nullptr || (base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) continue;
    Py_ssize_t at = 0;
    PyObject *key, *member;
    while (PyDict_Next(DictOf(base), &at, &key, &member)) {
      if (PyObject_TypeCheck(member, &PyMemberDescr_Type) && visit(key)) return;
    }
  }
}

bool HasSlots(PyTypeObject* type) {
  bool any = false;
  EachSlot(type, [&](PyObject*) { return any = true; });
  return any;
}

/// Attributes that live in slots instead of a dict, those that were never set left out.
std::vector<std::pair<PythonRef, PythonRef>> SlotsOf(PyObject* value) {
  std::vector<std::pair<PythonRef, PythonRef>> found;
  EachSlot(Py_TYPE(value), [&](PyObject* key) {
    PythonRef item(PyObject_GenericGetAttr(value, key));
    DropError();
    if (item) found.emplace_back(PythonRef::Borrow(key), std::move(item));
    return false;
  });
  return found;
}

}  // namespace

void ValueWriter::WriteFields(PyObject* value, std::initializer_list<const char*> fields) {
  for (const char* field : fields) {
    const PythonRef item(PyObject_GetAttrString(value, field));
    DropError();
    if (item) {
      Write(item.get());
    } else {
      WriteTag('-');
    }
  }
}

/// numpy's arrays and numbers, array.array, bytearray: by their bytes.
bool ValueWriter::WriteBuffer(PyObject* value) {
  if (!PyObject_CheckBuffer(value)) return false;
  Py_buffer view;
  if (PyObject_GetBuffer(value, &view, PyBUF_FULL_RO) != 0) {
    DropError();
    return false;
  }
  const std::string_view format = view.format == nullptr ? "" : view.format;
  // Arrays of objects hold addresses.
  if (format.find('O') != format.npos || format.find('P') != format.npos) {
    PyBuffer_Release(&view);
    return false;
  }
  WriteTag('B');
  WriteText(format);
  AppendLittle(bytes_, static_cast<uint8_t>(view.readonly));
  for (int i = 0; i < view.ndim && view.strides != nullptr; ++i) {
    AppendLittle(bytes_, static_cast<int64_t>(view.strides[i]));
  }
  // Whose memory it is, a program can ask of both.
  const bool is_array = ModuleOf(Py_TYPE(value)) == "numpy";
  const PythonRef owner(PyMemoryView_Check(value) || is_array ? PyObject_GetAttrString(value, is_array ? "base" : "obj")
                                                              : nullptr);
  DropError();
  if (owner) WriteText(Py_TYPE(owner.get())->tp_name);
  for (int i = 0; i < view.ndim && view.shape != nullptr; ++i) {
    AppendLittle(bytes_, static_cast<int64_t>(view.shape[i]));
  }
  Buffer content(static_cast<size_t>(view.len));
  const bool copied = PyBuffer_ToContiguous(content.data(), &view, view.len, 'C') == 0;
  PyBuffer_Release(&view);
  if (!copied) DropError();
  const Digest digest = DigestOf(Bytes(content));
  AppendLittle(bytes_, digest.low);
  AppendLittle(bytes_, digest.high);
  return copied;
}

/// Types of libraries whose meaning is not in their attributes.
bool ValueWriter::WriteKnownObject(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  const std::string_view module = ModuleOf(type);
  const std::string_view name = type->tp_name;
  if (IsEnumMember(type)) {
    WriteFields(value, {"_name_", "_value_"});
  } else if (name == "functools.partial" || name == "partial") {
    WriteFields(value, {"func", "args", "keywords"});
  } else if (name.ends_with("_lru_cache_wrapper") || name == "staticmethod" || name == "classmethod") {
    WriteFields(value, {"__wrapped__"});
  } else if (name == "property") {
    WriteFields(value, {"fget"});
  } else if (name.ends_with("_tuplegetter")) {  // Its place in the tuple is in what it says to pickle.
    const PythonRef parts(PyObject_CallMethod(value, "__reduce__", nullptr));
    DropError();
    if (parts) Write(PyTuple_GET_ITEM(parts.get(), 1));
  } else if (name == "types.GenericAlias") {
    WriteFields(value, {"__origin__", "__args__"});
  } else if (name == "types.UnionType") {
    WriteFields(value, {"__args__"});
  } else if (name == "re.Pattern") {  // Its text ends after 200 characters.
    WriteFields(value, {"pattern", "flags"});
  } else if (name == "re.Match") {
    WriteFields(value, {"string", "re", "pos", "endpos", "regs"});
  } else if (module == "torch._ops") {
    WriteText(ReprOf(value));
  } else if (module == "torch._library.custom_ops") {
    WriteFields(value, {"_qualname", "_init_fn", "_backend_fns"});
  } else if (module.starts_with("pathlib") || IsPrintable(module)) {
    WriteText(ReprOf(value));
  } else {
    return WriteBuffer(value);
  }
  return true;
}

/// In the order in which a program set them, which one that reads `__dict__` can see.
void ValueWriter::WriteAttributes(PyObject* dict) {
  WriteTag('{');
  Py_ssize_t at = 0;
  PyObject *key, *item;
  while (PyDict_Next(dict, &at, &key, &item)) {
    if (IsSaltedHash(key, item)) continue;
    Write(key);
    Write(item);
  }
}

bool ValueWriter::WriteSlots(PyObject* value) {
  const auto slots = SlotsOf(value);
  for (const auto& [name, item] : slots) {
    WriteText(ViewOf(name.get()));
    Write(item.get());
  }
  return HasSlots(Py_TYPE(value));
}

/// Subclasses of containers carry their elements besides their attributes.
void ValueWriter::WriteElements(PyObject* value) {
  if (PyDict_Check(value)) WriteDict(value);
  if (PyAnySet_Check(value)) WriteSet(value);
  // Not by the text that the class makes of itself.
  if (PyLong_Check(value)) WriteInteger(value);
  if (PyFloat_Check(value)) AppendLittle(bytes_, PyFloat_AS_DOUBLE(value));
  if (PyUnicode_Check(value)) WriteText(ViewOf(value));
  if (PyBytes_Check(value)) WriteText({PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value))});
  if (PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) Write(PyList_GET_ITEM(value, i));
  }
}

void ValueWriter::WriteObject(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  WriteTag('O');
  WriteText(ModuleOf(type));
  WriteText(QualnameOf(type));
  if (const auto group = IdentityOfGroupObject(value)) {
    WriteTag('g');
    return WriteText(*group);
  }
  if (WriteKnownObject(value)) return;
  WriteElements(value);
  // Locks, loggers, iterators: Python's own, which no graph depends on.
  const std::string_view module = ModuleOf(type);
  if (IsStandardName(module) && !HoldsState(module)) return;
  PyObject** place = _PyObject_GetDictPtr(value);
  const bool slots = WriteSlots(value);
  if (place != nullptr && *place == nullptr) return WriteTag('-');
  const PythonRef dict = PythonRef::Borrow(place != nullptr ? *place : nullptr);
  if (dict && PyDict_Check(dict.get())) return WriteAttributes(dict.get());
  const bool is_container = PyDict_Check(value) || PyList_Check(value) || PyAnySet_Check(value) ||
                            PyLong_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value);
  if (slots || is_container) return;
  WriteTag('?');
  opaque_.push_back(type->tp_name);
}

}  // namespace ingot::client
