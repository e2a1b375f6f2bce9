// SPDX-License-Identifier: Apache-2.0
#include "client/native/reading.h"

#include <structmember.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "client/native/callables.h"
#include "client/native/code_digest.h"
#include "client/native/compiled.h"
#include "client/native/live_groups.h"
#include "client/native/origin.h"
#include "client/native/set_table.h"
#include "client/native/tensor_facts.h"
#include "client/native/value_digest.h"

namespace ingot::client {
namespace {

Error Corrupt(std::string_view path, size_t at) {
  return Error(Code::kCorrupt,
               "path '" + std::string(path) + "': no step at position " + std::to_string(at));
}

Seen Of(PyObject* borrowed) { return {PythonRef::Borrow(borrowed), std::nullopt}; }

Digest DigestOfContent(PyObject* value) {
  ValueWriter writer;
  writer.Write(value);
  return writer.Finish();
}

Seen MemberOf(PyObject* holder, PyObject* name) {
  PyObject* member = _PyType_Lookup(Py_TYPE(holder), name);
  if (member == nullptr || !PyObject_TypeCheck(member, &PyMemberDescr_Type)) return {};
  Seen seen{PythonRef(PyMember_GetOne(reinterpret_cast<const char*>(holder),
                                      reinterpret_cast<PyMemberDescrObject*>(member)->d_member)),
            std::nullopt};
  PyErr_Clear();  // Never set.
  return seen;
}

Seen ItemOf(PyObject* holder, PyObject* key) {
  if (PyDict_Check(holder)) {
    PyObject* found = PyDict_GetItemWithError(holder, key);
    PyErr_Clear();
    return Of(found);
  }
  if (!PyLong_Check(key)) return {};
  const Py_ssize_t at = PyLong_AsSsize_t(key);
  PyErr_Clear();
  if (PyList_Check(holder) || PyTuple_Check(holder)) {
    return at >= 0 && at < PySequence_Fast_GET_SIZE(holder)
               ? Of(PySequence_Fast_GET_ITEM(holder, at))
               : Seen();
  }
  // deque: its own item access runs no code of a program.
  PySequenceMethods* methods = Py_TYPE(holder)->tp_as_sequence;
  if (methods == nullptr || methods->sq_item == nullptr || at < 0) return {};
  Seen seen{PythonRef(methods->sq_item(holder, at)), std::nullopt};
  PyErr_Clear();
  return seen;
}

Seen CellOf(PyObject* holder, PyObject* name) {
  if (!PyFunction_Check(holder)) return {};
  PyObject* cells = PyFunction_GET_CLOSURE(holder);
  const PythonRef names(PyObject_GetAttrString(PyFunction_GET_CODE(holder), "co_freevars"));
  PyErr_Clear();
  if (cells == nullptr || !names) return {};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()) && i < PyTuple_GET_SIZE(cells); ++i) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), i), name) == 0)
      return Of(PyCell_GET(PyTuple_GET_ITEM(cells, i)));
  }
  return {};
}

Seen FunctionField(PyObject* holder, std::string_view name) {
  if (name == "code") return Of(PyFunction_GET_CODE(holder));
  if (name == "globals") return Of(PyFunction_GET_GLOBALS(holder));
  if (name == "defaults") return Of(PyFunction_GET_DEFAULTS(holder));
  if (name == "annotations") return Of(PyFunction_GetAnnotations(holder));
  if (name == "kwdefaults") return Of(PyFunction_GET_KW_DEFAULTS(holder));
  return {};
}

/// Members and getters of types made in C, none of which runs a program's code.
Seen NativeField(PyObject* holder, const char* attribute) {
  Seen seen{PythonRef(PyObject_GetAttrString(holder, attribute)), std::nullopt};
  PyErr_Clear();
  return seen;
}

bool IsNamed(PyObject* holder, std::string_view type) { return Py_TYPE(holder)->tp_name == type; }

Digest DigestOfLength(PyObject* holder) {
  Hasher hasher;
  const Py_ssize_t length = PyDict_Check(holder) ? PyDict_GET_SIZE(holder) : PyObject_Size(holder);
  PyErr_Clear();
  hasher.Add(static_cast<uint64_t>(length));
  return hasher.Finish();
}

/// Keys in their order; atoms by value, others by what they are.
Digest DigestOfKeys(PyObject* dict) {
  Hasher hasher;
  const auto add = [&](PyObject* key) {
    const bool is_value = PyTuple_CheckExact(key) || PyFrozenSet_CheckExact(key);
    const Digest digest = is_value ? DigestOfContent(key) : DigestOfSeen(Of(key));
    hasher.Add(digest.low);
    hasher.Add(digest.high);
  };
  if (PyODict_Check(dict)) {
    // It keeps an order of its own, which its own iterator gives.
    const PythonRef iterator(PyODict_Type.tp_iter(dict));
    while (iterator) {
      const PythonRef key(PyIter_Next(iterator.get()));
      if (!key) break;
      add(key.get());
    }
    PyErr_Clear();
    return hasher.Finish();
  }
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Check(dict) && PyDict_Next(dict, &at, &key, &value)) add(key);
  return hasher.Finish();
}

Digest DigestOfBases(PyObject* type) {
  Hasher hasher;
  PyObject* order = PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type)->tp_mro : nullptr;
  for (Py_ssize_t i = 0; order != nullptr && i < PyTuple_GET_SIZE(order); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    hasher.AddField(std::string(ModuleOf(base)) + ":" + std::string(QualnameOf(base)));
  }
  return hasher.Finish();
}

Digest DigestOfMeta(PyObject* value) {
  ValueWriter writer;
  writer.Write(value);
  Hasher hasher;
  const Digest digest = writer.Finish();
  hasher.Add(digest.low);
  hasher.Add(digest.high);
  hasher.Add(static_cast<uint64_t>(IsTensor(value) && RequiresGrad(value)));
  return hasher.Finish();
}

/// Found by native code alone; what an instruction looks up by name is a place of its own.
bool IsSpecial(std::string_view name) {
  constexpr std::array<std::string_view, 21> kOthers = {
      "__doc__",     "__module__",    "__qualname__",     "__init_subclass__", "__del__",
      "__reduce__",  "__reduce_ex__", "__init__",         "__new__",           "__post_init__",
      "__call__",    "__getattr__",   "__getattribute__", "__setattr__",       "__delattr__",
      "__enter__",   "__exit__",      "__set_name__",     "__class_getitem__", "__getstate__",
      "__setstate__"};
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__") &&
         std::ranges::find(kOthers, name) == kOthers.end();
}

/// What native code finds under special names.
Digest DigestOfSpecial(PyObject* type) {
  Hasher hasher;
  PyObject* order = PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type)->tp_mro : nullptr;
  for (Py_ssize_t i = 0; order != nullptr && i < PyTuple_GET_SIZE(order); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    if ((base->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0 || DictOf(base) == nullptr) continue;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(DictOf(base), &at, &key, &value)) {
      const bool is_method = value == Py_None || PyCallable_Check(value) || Py_TYPE(value)->tp_descr_get != nullptr;
      if (!is_method || !PyUnicode_Check(key) || !IsSpecial(ViewOf(key))) continue;
      const Digest digest = DigestOfSeen(Of(value));
      hasher.AddField(ViewOf(key));
      hasher.Add(digest.low);
      hasher.Add(digest.high);
    }
  }
  return hasher.Finish();
}

Seen ContextOf(PyObject* variable) {
  PyObject* value = nullptr;
  if (!PyContextVar_CheckExact(variable) || PyContextVar_Get(variable, nullptr, &value) != 0)
    PyErr_Clear();
  Seen seen;
  seen.content = value == nullptr ? DigestOf("unset") : DigestOfContent(value);
  Py_XDECREF(value);
  return seen;
}

/// The dict behind a read-only view of it; the layouts are those of CPython's own objects.
PyObject* MappingOf(PyObject* view) {
  struct View {
    PyObject_HEAD PyObject* mapping;
  };
  const bool is_view = Py_TYPE(view) == &PyDictProxy_Type || PyDictKeys_Check(view) ||
                       PyDictValues_Check(view) || PyDictItems_Check(view);
  return is_view ? reinterpret_cast<View*>(view)->mapping : nullptr;
}

/// The members of a set one after the other.
Digest DigestOfOrder(PyObject* set) {
  Hasher hasher;
  if (!PyAnySet_Check(set)) return hasher.Finish();
  for (PyObject* member : TableOf(set)) {
    if (member == nullptr) continue;
    const Digest digest = DigestOfSeen(Of(member));
    hasher.Add(digest.low);
    hasher.Add(digest.high);
  }
  return hasher.Finish();
}

Digest DigestOfNames(PyObject* function) {
  Hasher hasher;
  if (PyType_Check(function)) {
    hasher.AddField(reinterpret_cast<PyTypeObject*>(function)->tp_name);
    hasher.AddField(QualnameOf(reinterpret_cast<PyTypeObject*>(function)));
    return hasher.Finish();
  }
  for (const char* name : {"__name__", "__qualname__", "__doc__", "__module__"}) {
    const PythonRef text(PyObject_GetAttrString(function, name));
    PyErr_Clear();
    hasher.AddField(text && PyUnicode_Check(text.get()) ? ViewOf(text.get())
                                                        : std::string_view("?"));
  }
  return hasher.Finish();
}

/// Classes registered with an abstract one, by name.
Digest DigestOfRegistry(PyObject* type) {
  const PythonRef module(PyImport_ImportModule("_abc"));
  const PythonRef dump(module ? PyObject_CallMethod(module.get(), "_get_dump", "O", type)
                              : nullptr);
  std::vector<std::string> names;
  const PythonRef iterator(dump && PyTuple_Check(dump.get())
                               ? PyObject_GetIter(PyTuple_GET_ITEM(dump.get(), 0))
                               : nullptr);
  while (iterator) {
    const PythonRef reference(PyIter_Next(iterator.get()));
    if (!reference) break;
    const PythonRef one = TargetOf(reference.get());
    if (!one || !PyType_Check(one.get())) continue;
    auto* registered = reinterpret_cast<PyTypeObject*>(one.get());
    names.push_back(std::string(ModuleOf(registered)) + ":" + std::string(QualnameOf(registered)));
  }
  PyErr_Clear();
  std::ranges::sort(names);
  Hasher hasher;
  for (const std::string& name : names) hasher.AddField(name);
  return hasher.Finish();
}

/// The key or value at a position of a dict.
Seen EntryAt(PyObject* dict, PyObject* position, bool is_key) {
  Py_ssize_t left = PyDict_Check(dict) ? PyLong_AsSsize_t(position) : -1, at = 0;
  PyErr_Clear();
  PyObject *key, *value;
  while (left >= 0 && PyDict_Next(dict, &at, &key, &value)) {
    if (left-- == 0) return Of(is_key ? key : value);
  }
  return {};
}

/// Only cached functions and settings of libraries are asked: a record must not name just any call.
Seen AnswerOf(PyObject* callable, PyObject* arguments) {
  const bool is_cached =
      std::string_view(Py_TYPE(callable)->tp_name).ends_with("_lru_cache_wrapper");
  const Effect effect = Callables::IsNative(callable) ? Callables::Shared().EffectOf(callable)
                                                      : Effect::kRefused;
  const bool is_setting = effect == Effect::kAnswer || effect == Effect::kHash;
  if ((!is_cached && !is_setting) || !PyTuple_Check(arguments)) return {};
  Seen seen{PythonRef(PyObject_Call(callable, arguments, nullptr)), std::nullopt};
  PyErr_Clear();
  return seen;
}

Seen FieldOf(PyObject* holder, PyObject* key) {
  const std::string_view name = ViewOf(key);
  Seen seen;
  if (name == "type") return Of(reinterpret_cast<PyObject*>(Py_TYPE(holder)));
  if (name == "dict") return Of(OwnDict(holder));
  if (name == "len") seen.content = DigestOfLength(holder);
  if (name == "keys") seen.content = DigestOfKeys(holder);
  if (name == "content") seen.content = DigestOfContent(holder);
  if (name == "order") seen.content = DigestOfOrder(holder);
  if (name == "bases") seen.content = DigestOfBases(holder);
  if (name == "special") seen.content = DigestOfSpecial(holder);
  if (name == "names") seen.content = DigestOfNames(holder);
  if (name == "grad")
    seen.content = DigestOf(IsTensor(holder) && RequiresGrad(holder) ? "requires grad" : "no grad");
  if (name == "registry") seen.content = DigestOfRegistry(holder);
  if (name == "kind") seen.content = DigestOfSeen(Of(holder));
  if (name == "address")
    seen.content = DigestOf(std::to_string(reinterpret_cast<uintptr_t>(holder)));
  if (name == "mapping") return Of(MappingOf(holder));
  if (name == "context") return ContextOf(holder);
  if (seen.content) return seen;
  if (PyFunction_Check(holder)) return FunctionField(holder, name);
  if (PyMethod_Check(holder))
    return Of(name == "func" ? PyMethod_GET_FUNCTION(holder) : PyMethod_GET_SELF(holder));
  if (PyCFunction_Check(holder)) return Of(name == "self" ? PyCFunction_GET_SELF(holder) : nullptr);
  if (PyCell_Check(holder)) return Of(name == "contents" ? PyCell_GET(holder) : nullptr);
  if (IsNamed(holder, "functools.partial")) return NativeField(holder, std::string(name).c_str());
  if (PyObject_TypeCheck(holder, &PyProperty_Type)) {
    return NativeField(holder, name == "get" ? "fget" : name == "set" ? "fset" : "fdel");
  }
  if (name == "target") return Seen{TargetOf(holder), std::nullopt};
  if (name == "wrapped" && CompiledTarget(holder) != nullptr) return Of(CompiledTarget(holder));
  if (name == "wrapped") return NativeField(holder, "__wrapped__");
  if (name == "factory") return NativeField(holder, "default_factory");
  return {};
}

/// Names that need no quotes behind a sigil.
bool IsPlainName(std::string_view name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !name.empty() && std::ranges::all_of(name, plain);
}

constexpr char kHexDigits[] = "0123456789abcdef";

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

int HexValue(char c) {
  const char* at = c == 0 ? nullptr : std::char_traits<char>::find(kHexDigits, 16, c);
  return at == nullptr ? -1 : static_cast<int>(at - kHexDigits);
}

/// The text behind a quote at `at`; moves behind the closing one.
std::optional<std::string> ParseQuoted(std::string_view path, size_t& at) {
  std::string out;
  for (++at; at < path.size() && path[at] != '"'; ++at) {
    if (path[at] != '\\') {
      out += path[at];
    } else if (at + 1 < path.size() && path[at + 1] != 'x') {
      out += path[++at];
    } else if (at + 3 < path.size() && HexValue(path[at + 2]) >= 0 && HexValue(path[at + 3]) >= 0) {
      out += static_cast<char>(HexValue(path[at + 2]) << 4 | HexValue(path[at + 3]));
      at += 3;
    } else {
      return std::nullopt;
    }
  }
  if (at >= path.size()) return std::nullopt;
  ++at;
  return out;
}

/// Of a key that has a name.
void AppendKey(std::string& path, PyObject* key) {
  if (PyUnicode_CheckExact(key)) {
    AppendQuoted(path, ViewOf(key));
  } else if (PyBytes_CheckExact(key)) {
    path += 'b';
    AppendQuoted(path, {PyBytes_AS_STRING(key), static_cast<size_t>(PyBytes_GET_SIZE(key))});
  } else if (key == Py_None || PyBool_Check(key)) {
    path += key == Py_None ? 'N' : key == Py_True ? 'T' : 'F';
  } else {
    path += std::to_string(PyLong_AsLongLong(key));
  }
  path += ']';
}

PythonRef ParseKey(std::string_view path, size_t& at) {
  PythonRef key;
  if (at >= path.size()) return key;
  const char c = path[at];
  if (c == '"' || (c == 'b' && at + 1 < path.size() && path[at + 1] == '"')) {
    if (c == 'b') ++at;
    const auto text = ParseQuoted(path, at);
    if (!text) return key;
    const auto size = static_cast<Py_ssize_t>(text->size());
    key = PythonRef(c == 'b' ? PyBytes_FromStringAndSize(text->data(), size)
                             : PyUnicode_DecodeUTF8(text->data(), size, "strict"));
    PyErr_Clear();
  } else if (c == 'N' || c == 'T' || c == 'F') {
    ++at;
    key = PythonRef::Borrow(c == 'N' ? Py_None : c == 'T' ? Py_True : Py_False);
  } else {
    long long number = 0;
    const auto [end, error] = std::from_chars(path.data() + at, path.data() + path.size(), number);
    if (error != std::errc()) return key;
    at = static_cast<size_t>(end - path.data());
    key = PythonRef(PyLong_FromLongLong(number));
  }
  if (at >= path.size() || path[at] != ']') return PythonRef();
  ++at;
  return key;
}

void AddName(Hasher& hasher, PyObject* value, const char* attribute) {
  const PythonRef name(PyObject_GetAttrString(value, attribute));
  PyErr_Clear();
  hasher.AddField(name && PyUnicode_Check(name.get()) ? ViewOf(name.get()) : std::string_view("?"));
}

bool IsMadeInC(PyObject* value) {
  return PyCFunction_Check(value) || PyObject_TypeCheck(value, &PyMethodDescr_Type) ||
         PyObject_TypeCheck(value, &PyWrapperDescr_Type) ||
         PyObject_TypeCheck(value, &PyGetSetDescr_Type) ||
         PyObject_TypeCheck(value, &PyMemberDescr_Type) ||
         PyObject_TypeCheck(value, &PyClassMethodDescr_Type);
}

}  // namespace

bool IsContentField(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames = {"len",     "keys",  "content", "bases", "order",
                                                       "special", "names", "grad",    "registry",
                                                       "context", "kind",  "address"};
  return std::ranges::find(kNames, name) != kNames.end();
}

PyObject* OwnDict(PyObject* holder) {
  if (PyType_Check(holder)) return DictOf(reinterpret_cast<PyTypeObject*>(holder));
  if (Py_TYPE(holder)->tp_dictoffset == 0 &&
      (Py_TYPE(holder)->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0)
    return nullptr;
  // Creates the dict where there is none yet, as reading `__dict__` does; the object keeps it.
  PyObject* dict = PyObject_GenericGetDict(holder, nullptr);
  if (dict == nullptr) PyErr_Clear();
  Py_XDECREF(dict);
  return dict != nullptr && PyDict_Check(dict) ? dict : nullptr;
}

PyTypeObject* NativeBase(PyTypeObject* type) {
  // Only classes that a class statement makes have this deallocator, whatever their bases are.
  static const destructor of_classes = [] {
    const PythonRef made(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "Plain"));
    return made ? reinterpret_cast<PyTypeObject*>(made.get())->tp_dealloc : nullptr;
  }();
  while (type->tp_base != nullptr && type->tp_dealloc == of_classes) type = type->tp_base;
  return type;
}

PyObject* LookUpInClass(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }

bool IsAtom(PyObject* value) {
  return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
         PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) ||
         PyComplex_CheckExact(value) || value == Py_Ellipsis || value == Py_NotImplemented ||
         IsTorchAtom(value) || PyRange_Check(value) || PySlice_Check(value);
}

Seen Look(PyObject* holder, Reading reading, PyObject* key) {
  switch (reading) {
    case Reading::kAttribute: {
      PyObject* dict = OwnDict(holder);
      PyObject* found = dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, key);
      PyErr_Clear();
      return Of(found);
    }
    case Reading::kItem: return ItemOf(holder, key);
    case Reading::kSlot: return MemberOf(holder, key);
    case Reading::kClass:
      return PyType_Check(holder) ? Of(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(holder), key))
                                  : Seen();
    case Reading::kCell: return CellOf(holder, key);
    case Reading::kField: return FieldOf(holder, key);
    case Reading::kKeyAt: return EntryAt(holder, key, true);
    case Reading::kValueAt: return EntryAt(holder, key, false);
    case Reading::kAnswer: return AnswerOf(holder, key);
  }
  return {};
}

Digest DigestOfSeen(const Seen& seen) {
  if (seen.content) return *seen.content;
  PyObject* value = seen.object.get();
  if (value == nullptr) return DigestOf("absent");
  if (IsAtom(value)) return DigestOfContent(value);
  if (PyCode_Check(value)) return DigestOfCode(value);
  Hasher hasher;
  if (PyFunction_Check(value)) {
    const auto* function = reinterpret_cast<PyFunctionObject*>(value);
    const Digest code = DigestOfCode(function->func_code);
    hasher.AddField("function");
    hasher.AddField(ViewOf(function->func_qualname));
    hasher.AddField(ViewOf(NameOfGlobals(function->func_globals)));  // Two modules may hold the same text.
    hasher.Add(code.low);
    hasher.Add(code.high);
  } else if (PyModule_Check(value)) {
    hasher.AddField("module");
    AddName(hasher, value, "__name__");
  } else if (IsMadeInC(value)) {
    hasher.AddField("native");
    AddName(hasher, value, "__qualname__");
  } else if (IsTensor(value)) {
    hasher.AddField(IsPlainTensor(value) ? std::string_view("tensor")
                                         : std::string_view(Py_TYPE(value)->tp_name));
    const Digest meta = DigestOfMeta(value);
    hasher.Add(meta.low);
    hasher.Add(meta.high);
  } else {
    auto* type = PyType_Check(value) ? reinterpret_cast<PyTypeObject*>(value) : Py_TYPE(value);
    hasher.AddField(PyType_Check(value) ? std::string_view("class") : std::string_view("object"));
    hasher.AddField(ModuleOf(type));
    hasher.AddField(QualnameOf(type));
    if (const auto group = IdentityOfGroupObject(value)) hasher.AddField(*group);
  }
  return hasher.Finish();
}

bool HasName(Reading reading, PyObject* key) {
  const auto is_plain = [](PyObject* one) {
    int overflow = 0;
    if (PyLong_CheckExact(one)) PyLong_AsLongLongAndOverflow(one, &overflow);
    return overflow == 0 && (PyUnicode_CheckExact(one) || PyBytes_CheckExact(one) ||
                             one == Py_None || PyBool_Check(one) || PyLong_CheckExact(one));
  };
  switch (reading) {
    case Reading::kItem: return is_plain(key);
    case Reading::kKeyAt:
    case Reading::kValueAt: return true;
    case Reading::kAnswer:
      return std::all_of(&PyTuple_GET_ITEM(key, 0),
                         &PyTuple_GET_ITEM(key, 0) + PyTuple_GET_SIZE(key), is_plain);
    default: return PyUnicode_Check(key);
  }
}

bool AppendStep(std::string& path, Reading reading, PyObject* key) {
  if (!HasName(reading, key)) return false;
  // An entry of `__dict__` is the attribute.
  constexpr std::string_view kDict = "!dict";
  if (reading == Reading::kItem && path.ends_with(kDict) && PyUnicode_CheckExact(key)) {
    path.resize(path.size() - kDict.size());
    return AppendStep(path, Reading::kAttribute, key);
  }
  // `torch.nn:Module`, not `torch.nn:.Module`.
  const bool begins = reading == Reading::kAttribute && path.ends_with(':') &&
                      PyUnicode_Check(key) && IsPlainName(ViewOf(key));
  if (!begins) path += static_cast<char>(reading);
  if (reading == Reading::kItem) {
    AppendKey(path, key);
  } else if (reading == Reading::kKeyAt || reading == Reading::kValueAt) {
    path += std::to_string(PyLong_AsSsize_t(key));
  } else if (reading == Reading::kAnswer) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      AppendKey(path, PyTuple_GET_ITEM(key, i));
    path += ')';
  } else {
    const std::string_view name = ViewOf(key);
    IsPlainName(name) ? void(path += name) : AppendQuoted(path, name);
  }
  return true;
}

Result<Step> ParseStep(std::string_view path, size_t& at) {
  if (at >= path.size() || kSigils.find(path[at]) == std::string_view::npos)
    return Corrupt(path, at);
  Step step{static_cast<Reading>(path[at]), PythonRef()};
  const size_t begin = at++;
  if (step.reading == Reading::kItem) {
    step.key = ParseKey(path, at);
  } else if (step.reading == Reading::kKeyAt || step.reading == Reading::kValueAt) {
    size_t number = 0;
    const auto [end, error] = std::from_chars(path.data() + at, path.data() + path.size(), number);
    if (error != std::errc()) return Corrupt(path, begin);
    at = static_cast<size_t>(end - path.data());
    step.key = PythonRef(PyLong_FromSize_t(number));
  } else if (step.reading == Reading::kAnswer) {
    const PythonRef list(PyList_New(0));
    while (at < path.size() && path[at] != ')') {
      const PythonRef one = ParseKey(path, at);
      if (!one || PyList_Append(list.get(), one.get()) != 0) return Corrupt(path, begin);
    }
    if (at++ >= path.size()) return Corrupt(path, begin);
    step.key = PythonRef(PyList_AsTuple(list.get()));
  } else if (at < path.size() && path[at] == '"') {
    if (const auto text = ParseQuoted(path, at)) {
      step.key = PythonRef(
          PyUnicode_DecodeUTF8(text->data(), static_cast<Py_ssize_t>(text->size()), "strict"));
      PyErr_Clear();
    }
  } else {
    const size_t end = std::min(path.find_first_of(".[~$%!@#(\"", at), path.size());
    PyObject* name = end == at ? nullptr
                               : PyUnicode_DecodeUTF8(path.data() + at,
                                                      static_cast<Py_ssize_t>(end - at), "strict");
    PyErr_Clear();
    if (name != nullptr) PyUnicode_InternInPlace(&name);
    step.key = PythonRef(name);
    at = end;
  }
  if (!step.key) return Corrupt(path, begin);
  return step;
}

}  // namespace ingot::client
