// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/field_content.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "client/native/cpython/dict_next.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/exact_text.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/set_table.h"
#include "client/native/effects/effect_table.h"
#include "client/native/places/code_digest.h"
#include "client/native/places/containers.h"
#include "client/native/places/live_groups.h"
#include "client/native/places/registrations.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/torch_ops.h"
#include "client/native/places/value_digest.h"

namespace ingot::client {
namespace {

Digest DigestOfContent(PyObject* value) {
  ValueWriter writer;
  writer.Write(value);
  return writer.FinishOrUntold();
}

PyObject* InternedMaxlen() {
  static PyObject* const name = PyUnicode_InternFromString("maxlen");
  return name;
}

/// How many elements, and of a deque how many it may have.
Digest DigestOfLength(PyObject* holder) {
  Hasher hasher;
  hasher.Add(static_cast<uint64_t>(SizeOf(holder)));
  if (std::string_view(NativeBase(Py_TYPE(holder))->tp_name) == "collections.deque") {
    const PythonRef most(PyObject_GenericGetAttr(holder, InternedMaxlen()));
    DropError();
    if (most && most.get() != Py_None) hasher.Add(static_cast<uint64_t>(PyLong_AsSsize_t(most.get())));
  }
  return hasher.Finish();
}

/// Whether objects can be made of a class, or parts of it are abstract.
Digest DigestOfAbstract(PyObject* type) {
  const bool is_abstract =
      PyType_Check(type) && (reinterpret_cast<PyTypeObject*>(type)->tp_flags & Py_TPFLAGS_IS_ABSTRACT) != 0;
  return DigestOf(is_abstract ? "abstract" : "whole");
}

/// Keys in their order; atoms by value, others by what they are. Where the class says what is equal, a look-up that
/// finds nothing has seen no more of a key than its hash, which the dict keeps: whatever has become of the key.
Digest DigestOfKeys(PyObject* dict) {
  Hasher hasher;
  const auto add = [&](PyObject* key) {
    const bool is_value = PyTuple_CheckExact(key) || PyFrozenSet_CheckExact(key);
    const Digest digest = is_value ? DigestOfContent(key) : DigestOfValue(key);
    hasher.Add(digest.low);
    hasher.Add(digest.high);
  };
  const bool is_ordered = PyODict_Check(dict);
  if (is_ordered) {
    // It keeps an order of its own, which its own iterator gives.
    const PythonRef iterator(PyODict_Type.tp_iter(dict));
    while (iterator) {
      const PythonRef key(PyIter_Next(iterator.get()));
      if (!key) break;
      add(key.get());
    }
    DropError();
  }
  Py_ssize_t at = 0;
  PyObject *key, *value;
  Py_hash_t hash;
  while (PyDict_Check(dict) && ingot_dict_next(dict, &at, &key, &value, &hash) != 0) {
    if (!is_ordered) add(key);
    if (IsTextOfClass(key)) AddText(hasher, key);
    if (!HasKnownHash(key)) hasher.Add(static_cast<uint64_t>(hash));
  }
  return hasher.Finish();
}

Digest DigestOfBases(PyObject* type) {
  Hasher hasher;
  PyObject* order = PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type)->tp_mro : nullptr;
  for (Py_ssize_t i = 0; order != nullptr && i < PyTuple_GET_SIZE(order); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    AddClassName(hasher, base);
    if (!IsImmutable(base) && !HasOwnName(reinterpret_cast<PyObject*>(base))) hasher.AddField("made elsewhere");
  }
  return hasher.Finish();
}

/// What native code finds under special names: functions and descriptors, and numbers and text by value. Of other
/// objects the places are read that hold them (Observer::LookIntoSpecial).
Digest DigestOfSpecial(PyObject* type) {
  Hasher hasher;
  PyObject* order = PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type)->tp_mro : nullptr;
  for (Py_ssize_t i = 0; order != nullptr && i < PyTuple_GET_SIZE(order); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    if ((base->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0 || DictOf(base) == nullptr) continue;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(DictOf(base), &at, &key, &value)) {
      const bool is_told = IsAtom(value) || PyCallable_Check(value) || Py_TYPE(value)->tp_descr_get != nullptr;
      if (!is_told || !PyUnicode_Check(key) || !IsSpecialName(ViewOf(key))) continue;
      const Digest digest = DigestOfValue(value);
      AddText(hasher, key);
      hasher.Add(digest.low);
      hasher.Add(digest.high);
    }
  }
  return hasher.Finish();
}

Digest DigestOfContext(PyObject* variable) {
  PyObject* value = nullptr;
  if (!PyContextVar_CheckExact(variable) || PyContextVar_Get(variable, nullptr, &value) != 0) DropError();
  const PythonRef held(value);
  return held ? DigestOfContent(held.get()) : DigestOf("unset");
}

/// The members of a set one after the other.
Digest DigestOfOrder(PyObject* set) {
  Hasher hasher;
  if (!PyAnySet_Check(set)) return hasher.Finish();
  for (PyObject* member : TableOf(set)) {
    if (member == nullptr) continue;
    const Digest digest = DigestOfValue(member);
    hasher.Add(digest.low);
    hasher.Add(digest.high);
  }
  return hasher.Finish();
}

/// The filters of `warnings`, where one of them makes an error of a warning: others decide what is printed.
Digest DigestOfErrors(PyObject* module) {
  PyObject* filters = PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "filters") : nullptr;
  bool any = false;
  for (Py_ssize_t i = 0; filters != nullptr && PyList_Check(filters) && i < PyList_GET_SIZE(filters); ++i) {
    PyObject* one = PyList_GET_ITEM(filters, i);
    any |= PyTuple_Check(one) && PyTuple_GET_SIZE(one) > 0 && ViewOf(PyTuple_GET_ITEM(one, 0)) == "error";
  }
  return any ? DigestOfContent(filters) : DigestOf("none");
}

/// What numpy's arithmetic makes of errors, and how its numbers are written: contexts of its own, as versions have
/// them.
Digest DigestOfNumpy(PyObject* /*module*/) {
  constexpr std::pair<const char*, const char*> kErrors[] = {{"numpy._core.umath", "_get_extobj_dict"},
                                                             {"numpy.core.umath", "geterrobj"}};
  constexpr std::pair<const char*, const char*> kPrinting[] = {{"numpy._core.printoptions", "format_options"},
                                                               {"numpy._core.arrayprint", "_format_options"},
                                                               {"numpy.core.arrayprint", "_format_options"}};
  Hasher hasher;
  const auto add = [&hasher](const Digest& digest) {
    hasher.Add(digest.low);
    hasher.Add(digest.high);
  };
  for (const auto& [module, name] : kErrors) {
    PyObject* const ask = LoadedAttribute(module, name);
    const PythonRef errors(ask == nullptr ? nullptr : PyObject_CallNoArgs(ask));
    DropError();
    if (errors) add(DigestOfContent(errors.get()));
  }
  for (const auto& [module, name] : kPrinting) {
    PyObject* const options = LoadedAttribute(module, name);
    if (options != nullptr) add(PyContextVar_CheckExact(options) ? DigestOfContext(options) : DigestOfContent(options));
  }
  return hasher.Finish();
}

Digest DigestOfGrad(PyObject* holder) { return IsTensor(holder) ? GradOf(holder) : DigestOf("no tensor"); }

Digest DigestOfAddress(PyObject* holder) { return DigestOf(std::to_string(reinterpret_cast<uintptr_t>(holder))); }

/// By what name an operator object of PyTorch's or numpy's computes; empty for anything else.
std::string NameOfOperator(PyObject* value) {
  if (std::string_view(Py_TYPE(value)->tp_name) == "numpy.ufunc") {
    const PythonRef name(PyObject_GetAttrString(value, "__name__"));
    DropError();
    return "numpy." + std::string(ViewOf(name.get()));
  }
  if (!IsOfTorchOps(Py_TYPE(value))) return {};
  std::string found;
  for (const char* entry : {"_qualified_op_name", "_overloadname", "_name"}) {
    PyObject* dict = OwnDict(value);
    PyObject* name = dict == nullptr ? nullptr : PyDict_GetItemString(dict, entry);
    if (name != nullptr) found += std::string(ViewOf(name)) + " ";
  }
  return found;
}

bool IsMadeInC(PyObject* value) {
  return PyCFunction_Check(value) || PyObject_TypeCheck(value, &PyMethodDescr_Type) ||
         PyObject_TypeCheck(value, &PyWrapperDescr_Type) || PyObject_TypeCheck(value, &PyGetSetDescr_Type) ||
         PyObject_TypeCheck(value, &PyMemberDescr_Type) || PyObject_TypeCheck(value, &PyClassMethodDescr_Type);
}

struct ContentField {
  std::string_view name;
  Digest (*of)(PyObject* holder);
};

constexpr ContentField kContentFields[] = {
    {"len", DigestOfLength},        {"keys", DigestOfKeys},         {"content", DigestOfContent},
    {"order", DigestOfOrder},       {"bases", DigestOfBases},       {"special", DigestOfSpecial},
    {"grad", DigestOfGrad},         {"registry", DigestOfRegistry}, {"kind", DigestOfValue},
    {"address", DigestOfAddress},   {"context", DigestOfContext},   {"errors", DigestOfErrors},
    {"abstract", DigestOfAbstract}, {"numpy", DigestOfNumpy},
};

const ContentField* FindField(std::string_view name) {
  const auto* found = std::ranges::find(kContentFields, name, &ContentField::name);
  return found == std::end(kContentFields) ? nullptr : found;
}

}  // namespace

/// Found by native code alone; what an instruction looks up by name is a place of its own.
bool IsSpecialName(std::string_view name) {
  constexpr std::array<std::string_view, 22> kOthers = {
      "__doc__",           "__module__",   "__qualname__", "__init_subclass__", "__del__",  "__reduce__",
      "__reduce_ex__",     "__init__",     "__new__",      "__post_init__",     "__call__", "__getattr__",
      "__getattribute__",  "__setattr__",  "__delattr__",  "__enter__",         "__exit__", "__set_name__",
      "__class_getitem__", "__getstate__", "__setstate__", "__firstlineno__"};
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__") &&
         std::ranges::find(kOthers, name) == kOthers.end();
}

bool IsContentField(std::string_view name) { return FindField(name) != nullptr; }

std::optional<Digest> ContentOf(PyObject* holder, std::string_view field) {
  const ContentField* found = FindField(field);
  return found == nullptr ? std::nullopt : std::optional(found->of(holder));
}

Digest DigestOfPlaceValue(const PlaceValue& seen) {
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
    AddText(hasher, function->func_qualname);
    AddText(hasher, NameOfGlobals(function->func_globals));  // Two modules may hold the same text.
    if (HasOwnBuiltins(value)) {
      hasher.AddField("builtins of its own");
      AddText(hasher, NameOfGlobals(function->func_builtins));
    }
    hasher.Add(code.low);
    hasher.Add(code.high);
  } else if (PyModule_Check(value)) {
    hasher.AddField("module");
    AddText(hasher, NameOfGlobals(PyModule_GetDict(value)));
    AddClassName(hasher, Py_TYPE(value));
    if (!HasOwnName(value)) hasher.AddField("made elsewhere");
  } else if (IsMadeInC(value)) {
    const PythonRef name(PyObject_GetAttrString(value, "__qualname__"));
    DropError();
    hasher.AddField("native");
    AddText(hasher, name.get());
    hasher.AddField(EffectTable::NameOf(value));  // math.sqrt is not cmath.sqrt.
    if (const std::string schema = SchemaOfOperator(value); !schema.empty()) hasher.AddField(schema);
  } else if (const std::string name = NameOfOperator(value); !name.empty()) {
    hasher.AddField("operator");
    hasher.AddField(name);
  } else if (IsTensor(value)) {
    hasher.AddField("tensor");
    AddClassName(hasher, Py_TYPE(value));
    const Digest meta = HasPlainMetadata(value) ? MetadataOf(value) : DigestOfUntold();
    hasher.Add(meta.low);
    hasher.Add(meta.high);
  } else {
    auto* type = PyType_Check(value) ? reinterpret_cast<PyTypeObject*>(value) : Py_TYPE(value);
    hasher.AddField(PyType_Check(value) ? std::string_view("class") : std::string_view("object"));
    AddClassName(hasher, type);
    if (!IsImmutable(type) && !HasOwnName(reinterpret_cast<PyObject*>(type))) hasher.AddField("made elsewhere");
    if (const auto group = IdentityOfGroupObject(value)) hasher.AddField(*group);
    if (IsEnumMember(value)) AddText(hasher, PyDict_GetItemString(OwnDict(value), "_name_"));
  }
  return hasher.Finish();
}

bool IsEnumMember(PyObject* value) {
  static auto* const meta = reinterpret_cast<PyTypeObject*>(Py_XNewRef(LoadedAttribute("enum", "EnumMeta")));
  PyObject* const dict = meta != nullptr && Py_TYPE(Py_TYPE(value)) == meta ? OwnDict(value) : nullptr;
  return dict != nullptr && PyDict_GetItemString(dict, "_name_") != nullptr;
}

std::optional<Fetched> FetchedAs(PyObject* value) {
  constexpr int64_t kSizeMax = int64_t{1} << 31, kIntegerMax = int64_t{1} << 51;
  if (value == nullptr) return std::nullopt;
  // Lists and dicts find a NaN where it is the same object, which one that stands for it is not.
  if (PyFloat_CheckExact(value)) return IsNan(value) ? std::nullopt : std::optional(Fetched::kFloat);
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0 || number > kIntegerMax || number < -kIntegerMax) return std::nullopt;
    return number >= 0 && number < kSizeMax ? Fetched::kSize : Fetched::kInteger;
  }
  const bool is_tensor =
      IsPlainTensor(value) && !HasOwnAttributes(value) && !RequiresGrad(value) && IsPlainlyRead(value);
  return is_tensor ? std::optional(Fetched::kTensor) : std::nullopt;
}

namespace {

constexpr Py_ssize_t kFetchedTupleMax = 16;

/// How many tensors a tuple holds that calls may fetch, and nothing else; 0 for any other value.
Py_ssize_t TensorsIn(PyObject* value) {
  const Py_ssize_t count = value != nullptr && PyTuple_CheckExact(value) ? PyTuple_GET_SIZE(value) : 0;
  if (count > kFetchedTupleMax) return 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (FetchedAs(PyTuple_GET_ITEM(value, i)) != Fetched::kTensor) return 0;
  }
  return count;
}

}  // namespace

PyObject* AnyLike(PyObject* value) {
  static const auto make = [] { return PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)); };
  static const std::array<PyObject*, kFetchedCount> any = {make(), make(), make(), make()};
  static std::array<PyObject*, kFetchedTupleMax + 1> any_tuple{};
  if (const Py_ssize_t count = TensorsIn(value)) {
    PyObject*& kept = any_tuple[static_cast<size_t>(count)];
    if (kept == nullptr) kept = make();
    return kept;
  }
  const auto as = FetchedAs(value);
  return as ? any[static_cast<size_t>(*as)] : nullptr;
}

bool IsAnyLike(PyObject* any, PyObject* value) {
  return any != nullptr && Py_TYPE(any) == &PyBaseObject_Type && AnyLike(value) == any;
}

std::optional<Digest> DigestIfFetched(PyObject* value) {
  static const std::array<Digest, kFetchedCount> digests = {
      DigestOf("a size that calls fetch"), DigestOf("an integer that calls fetch"),
      DigestOf("a float that calls fetch"), DigestOf("a tensor that calls fetch")};
  if (const Py_ssize_t count = TensorsIn(value))
    return DigestOf("a tuple of " + std::to_string(count) + " tensors that calls fetch");
  const auto as = FetchedAs(value);
  return as ? std::optional(digests[static_cast<size_t>(*as)]) : std::nullopt;
}

Digest DigestOfValue(PyObject* value) { return DigestOfPlaceValue({PythonRef::Borrow(value), std::nullopt}); }

}  // namespace ingot::client
