// SPDX-License-Identifier: Apache-2.0
// How ValueWriter writes objects: by their attributes, or by what their library says of them.
#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <array>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/exact_text.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/places/containers.h"
#include "client/native/places/live_groups.h"
#include "client/native/places/place_access.h"
#include "client/native/places/value_digest.h"

namespace ingot::client {
namespace {

/// A remembered hash() differs from process to process and never steers a program
/// (`_original_object_hash` of Hugging Face's generation configs).
bool IsSaltedHash(PyObject* key, PyObject* value) { return PyLong_CheckExact(value) && ViewOf(key).ends_with("_hash"); }

/// Locks and loggers, which no graph depends on.
bool NeverSteers(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  return ModuleOf(type) == "logging" || name == "_thread.lock" || name == "_thread.RLock";
}

/// Modules of Python's library whose objects are made of attributes, slots and elements.
bool HoldsState(std::string_view module) {
  constexpr std::array<std::string_view, 6> kModules = {"types",    "collections", "argparse",
                                                        "builtins", "fractions",   "uuid"};
  return std::ranges::find(kModules, module) != kModules.end();
}

/// A tuple of C's with names (time.struct_time), of which some may be no elements.
bool IsStructSequence(PyTypeObject* type) {
  static PyObject* const count = PyUnicode_InternFromString("n_sequence_fields");
  return PyType_IsSubtype(type, &PyTuple_Type) && LookUpInClass(type, count) != nullptr;
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

/// By what PyTorch's own types say of themselves in words, which is all that they are.
void ValueWriter::WriteWords(PyObject* value) {
  const PythonRef words(PlainRepr(value));
  DropError();
  words&& PyUnicode_Check(words.get()) ? AppendText(bytes_, words.get()) : WriteOpaque(Py_TYPE(value)->tp_name);
}

/// By what a type made in C says to pickle, where nothing else says all that an object is.
void ValueWriter::WriteReduced(PyObject* value) {
  constexpr int kProtocol = 4;
  const PythonRef parts(PyObject_CallMethod(value, "__reduce_ex__", "i", kProtocol));
  DropError();
  if (!parts || !PyTuple_Check(parts.get())) return WriteOpaque(Py_TYPE(value)->tp_name);
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(parts.get()); ++i) Write(PyTuple_GET_ITEM(parts.get(), i));
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
  WriteBytes(format);
  AppendLittle(bytes_, static_cast<uint8_t>(view.readonly));
  for (int i = 0; i < view.ndim && view.strides != nullptr; ++i) {
    AppendLittle(bytes_, static_cast<int64_t>(view.strides[i]));
  }
  // Whose memory it is, a program can ask of both.
  const bool is_array = ModuleOf(Py_TYPE(value)) == "numpy";
  const PythonRef owner(PyMemoryView_Check(value) || is_array ? PyObject_GetAttrString(value, is_array ? "base" : "obj")
                                                              : nullptr);
  DropError();
  if (owner) WriteClassName(Py_TYPE(owner.get()));
  for (int i = 0; i < view.ndim && view.shape != nullptr; ++i) {
    AppendLittle(bytes_, static_cast<int64_t>(view.shape[i]));
  }
  Buffer content(static_cast<size_t>(view.len));
  const bool copied = PyBuffer_ToContiguous(content.data(), &view, view.len, 'C') == 0;
  PyBuffer_Release(&view);
  if (!copied) DropError();
  WriteDigest(DigestOf(Bytes(content)));
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
    WriteFields(value, {"fget", "fset", "fdel"});
  } else if (name == "types.GenericAlias") {
    WriteFields(value, {"__origin__", "__args__", "__unpacked__"});
  } else if (name == "types.UnionType") {
    WriteFields(value, {"__args__"});
  } else if (name == "re.Pattern") {
    WriteFields(value, {"pattern", "flags"});
  } else if (name == "re.Match") {
    WriteFields(value, {"string", "re", "pos", "endpos", "regs"});
  } else if (module == "torch._library.custom_ops") {
    WriteFields(value, {"_qualname", "_init_fn", "_backend_fns"});
  } else if (module == "torch._ops" || module == "torch") {
    WriteWords(value);
  } else if (module == "datetime" || module == "decimal" || module == "operator" || module.starts_with("pathlib") ||
             name.ends_with("_tuplegetter") || IsStructSequence(type)) {
    WriteReduced(value);
  } else {
    return WriteBuffer(value);
  }
  return true;
}

/// In the order in which a program set them, which one that reads `__dict__` can see.
void ValueWriter::WriteAttributes(PyObject* dict) {
  WriteTag('{');
  WriteCount(PyDict_GET_SIZE(dict));
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
    Write(name.get());
    Write(item.get());
  }
  return HasSlots(Py_TYPE(value));
}

/// Subclasses of containers carry their elements besides their attributes. False for an object that is nothing of it.
bool ValueWriter::WriteElements(PyObject* value) {
  if (PyDict_Check(value)) {
    WriteDict(value);
    static PyObject* const factory = PyUnicode_InternFromString("factory");
    WritePart(LoadPlace(value, AccessKind::kField, factory).object.get());
  } else if (PyAnySet_Check(value)) {
    WriteSet(value);
  } else if (PyLong_Check(value)) {  // Not by the text that the class makes of itself.
    WriteInteger(value);
  } else if (PyFloat_Check(value)) {
    WriteFloat(PyFloat_AS_DOUBLE(value));
  } else if (PyUnicode_Check(value)) {
    AppendText(bytes_, value);
  } else if (PyBytes_Check(value)) {
    WriteBytes({PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value))});
  } else if (const PythonRef elements = ElementsOf(value)) {
    static PyObject* const length = PyUnicode_InternFromString("len");
    WriteDigest(*LoadPlace(value, AccessKind::kField, length).content);  // With the bound of a deque.
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.get()); ++i) Write(PyList_GET_ITEM(elements.get(), i));
  } else {
    return false;
  }
  return true;
}

void ValueWriter::WriteObject(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  WriteTag('O');
  WriteClassName(type);
  if (const auto group = IdentityOfGroupObject(value)) {
    WriteTag('g');
    return WriteBytes(*group);
  }
  if (WriteKnownObject(value)) return;
  const bool has_elements = WriteElements(value);
  if (NeverSteers(type)) return;
  // What native code keeps besides, nobody has looked at.
  PyTypeObject* native = NativeBase(type);
  const bool is_plain =
      native == &PyBaseObject_Type || has_elements || std::string_view(native->tp_name) == "types.SimpleNamespace";
  const std::string_view module = ModuleOf(type);
  if (!is_plain || (IsStandardName(module) && !HoldsState(module))) return WriteOpaque(type->tp_name);
  const bool slots = WriteSlots(value);
  // One that nobody has asked for yet is empty.
  if (const PythonRef dict = PythonRef::Borrow(OwnDict(value))) return WriteAttributes(dict.get());
  if (!slots && !has_elements) WriteOpaque(type->tp_name);
}

}  // namespace ingot::client
