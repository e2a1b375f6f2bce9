// SPDX-License-Identifier: Apache-2.0
// How the observer looks at calls: Python code runs in frames of its own, of functions made in C the table says what
// they do (observe_native.cpp), and classes make objects.

#include <algorithm>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/effects/escapes.h"
#include "client/native/observe/observer.h"
#include "client/native/places/containers.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/torch_ops.h"

namespace ingot::client {
namespace {

/// A generator's values put into a list or tuple, which looks into none of them.
bool IsCollected(PyTypeObject* type, PyObject* const* values, size_t count) {
  return (type == &PyList_Type || type == &PyTuple_Type) && count == 1 && PyGen_Check(values[0]);
}

/// What an attrgetter or itemgetter gets: a tuple, or null.
PythonRef KeysOf(PyObject* getter) {
  const PythonRef parts(PyObject_CallMethod(getter, "__reduce__", nullptr));
  DropError();
  PyObject* keys = parts && PyTuple_Check(parts.get()) && PyTuple_GET_SIZE(parts.get()) > 1
                       ? PyTuple_GET_ITEM(parts.get(), 1)
                       : nullptr;
  return PythonRef::Borrow(keys != nullptr && PyTuple_Check(keys) ? keys : nullptr);
}

/// What lies in an object under a name or key; None where only code of a program could tell.
PythonRef PartOf(PyObject* subject, PyObject* key, bool is_item) {
  if (!is_item) {
    PlaceValue own = LoadPlace(subject, AccessKind::kAttribute, key);
    PyObject* of_class = PyUnicode_Check(key) ? LookUpInClass(Py_TYPE(subject), key) : nullptr;
    PyObject* found = own.object ? own.object.get() : of_class;
    return PythonRef::Borrow(found == nullptr ? Py_None : found);
  }
  const bool is_plain = PyTuple_CheckExact(subject) || PyList_CheckExact(subject) || PyDict_CheckExact(subject);
  PythonRef part(is_plain ? PyObject_GetItem(subject, key) : Py_NewRef(Py_None));
  DropError();
  return part ? std::move(part) : PythonRef::Borrow(Py_None);
}

}  // namespace

void Observer::DeepAll(const Arguments& arguments, size_t from) {
  for (size_t i = from; i < arguments.count && !refused_; ++i) Deep(arguments.values[i]);
}

/// A tuple of the arguments of a call that text can say; null for others.
PythonRef Observer::PlainArguments(const Arguments& arguments) {
  for (size_t i = 0; i < arguments.count; ++i) SpecializeOn(arguments.values[i]);
  if (arguments.keyword_names != nullptr) return {};
  PythonRef values(PyTuple_New(static_cast<Py_ssize_t>(arguments.count)));
  for (size_t i = 0; i < arguments.count; ++i) {
    PyObject* value = arguments.values[i];
    const bool is_plain =
        PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value) || value == Py_None;
    if (!is_plain) return {};
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Py_NewRef(value));
  }
  return values;
}

/// The answer of a call with plain arguments is a place like any other: it is asked for again.
void Observer::Answer(PyObject* callable, const Arguments& arguments) {
  auto number = log_.Find(callable);
  if (!number && PyCFunction_Check(callable)) {
    const PythonRef name(PyObject_GetAttrString(callable, "__name__"));
    const PythonRef module(PyObject_GetAttrString(callable, "__module__"));
    DropError();
    const auto path = CanonicalPath(callable, ViewOf(module.get()), ViewOf(name.get()));
    if (path && !path->ends_with(':')) number = log_.AddRoot(callable, *path);
  }
  const PythonRef values = PlainArguments(arguments);
  if (!number || !values)
    return Refuse("call", EffectTable::NameOf(callable) + ", whose answer may be one from before");
  log_.NoteRead(*number, AccessKind::kAnswer, values.get());
}

/// operator.attrgetter and itemgetter look into what native code hands them.
void Observer::GetBy(PyObject* getter, PyObject* subject) {
  const bool is_item = std::string_view(Py_TYPE(getter)->tp_name) == "operator.itemgetter";
  const PythonRef keys = KeysOf(getter);
  if (!keys) return Refuse("call", Py_TYPE(getter)->tp_name);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    if (is_item) {
      Subscript(subject, key);
    } else if (PyUnicode_Check(key) && ViewOf(key).find('.') == std::string_view::npos) {
      LoadAttribute(subject, key);
    } else {
      return Refuse("call", "operator.attrgetter of a path");
    }
  }
}

/// Getters among the arguments of native code: each may be handed any element of the others.
void Observer::Getters(const Arguments& arguments) {
  for (size_t i = 0; i < arguments.count; ++i) {
    PyObject* getter = arguments.values[i];
    const std::string_view name = Py_TYPE(getter)->tp_name;
    if (name == "operator.methodcaller") return Refuse("call", "operator.methodcaller");
    if (!EffectTable::IsGetter(getter)) continue;
    for (size_t k = 0; k < arguments.count; ++k) {
      if (k == i) continue;
      PyObject* one = arguments.values[k];
      const bool is_plain = PyList_Check(one) || PyTuple_Check(one) || PyDict_Check(one) || PyAnySet_Check(one);
      if (!is_plain && !IsAtom(one) && !PyFunction_Check(one) && !EffectTable::IsNative(one)) {
        return Refuse("call", std::string(name) + " over a " + Py_TYPE(one)->tp_name);
      }
      if (!is_plain) continue;
      const PythonRef items = ElementsOf(one);
      // What it gives, native code takes, and may look into.
      const PythonRef keys = KeysOf(getter);
      for (Py_ssize_t n = 0; items && n < PyList_GET_SIZE(items.get()) && !refused_; ++n) {
        PyObject* subject = PyList_GET_ITEM(items.get(), n);
        GetBy(getter, subject);
        for (Py_ssize_t k = 0; keys && k < PyTuple_GET_SIZE(keys.get()); ++k)
          Deep(PartOf(subject, PyTuple_GET_ITEM(keys.get(), k), name == "operator.itemgetter").get());
      }
    }
  }
}

/// A bound method is two objects.
void Observer::TakeApart(PyObject* method) {
  const auto number = log_.Find(method);
  if (!number) return;
  log_.NoteField(*number, "func");
  log_.NoteField(*number, "self");
}

int Observer::Call(PyObject* callable, const Arguments& arguments) {
  if (callable == nullptr) return kNone;
  if (PyFunction_Check(callable)) {
    if (EffectTable::Shared().IsMarkedPure(callable)) DeepAll(arguments);
    EnterFunction(callable);
    const bool is_hash = arguments.count > 0 && IsTensor(arguments.values[0]) &&
                         ViewOf(reinterpret_cast<PyFunctionObject*>(callable)->func_qualname) == "Tensor.__hash__";
    if (is_hash) Address(arguments.values[0]);
    return kNone;
  }
  if (PyMethod_Check(callable)) {
    TakeApart(callable);
    std::vector<PyObject*> values{PyMethod_GET_SELF(callable)};
    values.insert(values.end(), arguments.values, arguments.values + arguments.count);
    return Call(PyMethod_GET_FUNCTION(callable), {values.data(), values.size(), arguments.keyword_names});
  }
  if (PyType_Check(callable)) return CallType(reinterpret_cast<PyTypeObject*>(callable), arguments);
  if (EffectTable::IsNative(callable)) return CallNative(callable, arguments);
  return CallOther(callable, arguments);
}

int Observer::CallOther(PyObject* callable, const Arguments& arguments) {
  const Depth depth(*this);
  if (refused_) return kNone;
  PyTypeObject* type = Py_TYPE(callable);
  const std::string_view name = type->tp_name;
  const auto number = log_.Find(callable);
  if (EffectTable::Shared().IsMarkedPure(callable)) {
    DeepAll(arguments);
  } else if (name == "functools.partial") {
    return CallPartial(callable, arguments);
  } else if (name.ends_with("_lru_cache_wrapper")) {
    // The answer may be one from before: it is the wrapped function's, as long as that has the same
    // code.
    const PythonRef wrapped(PyObject_GetAttrString(callable, "__wrapped__"));
    DropError();
    if (number) log_.NoteField(*number, "wrapped");
    if (wrapped) Call(wrapped.get(), arguments);
    DeepAll(arguments);
    // A library's is taken for a function of its arguments, which may be more than text can say.
    if (!number || (wrapped && IsInstalled(wrapped.get()))) return kSetting;
    // Asked now, it would do what the call is about to do.
    if (const auto values = PlainArguments(arguments)) {
      answers_.push_back({*number, PythonRef::Borrow(values.get()), log_.writes().size()});
    } else {
      Refuse("call", EffectTable::NameOf(callable) + ", whose answer may be one from before");
    }
    return kAnswered;
  } else if (PyWeakref_CheckRefExact(callable)) {
    if (number) log_.NoteField(*number, "target");
  } else if (PyObject* const wrapped = CompiledTarget(callable)) {
    if (number) log_.NoteField(*number, "wrapped");
    static PyObject* const plain = PyUnicode_InternFromString("_call_impl");
    // What is called where there are no parts.
    if (IsModulePart(callable)) LoadAttribute(PyMethod_GET_SELF(wrapped), plain);
    return Call(wrapped, arguments);
  } else if (name == "numpy.ufunc" || EffectTable::IsGetter(callable) || name == "operator.methodcaller") {
    if (name == "operator.methodcaller") Refuse("call", std::string(name));
    DeepAll(arguments);
    const bool is_ufunc = name == "numpy.ufunc";
    if (!is_ufunc) Operand(callable);
    if (is_ufunc && arguments.NameOutput(callable))
      Refuse("side-effect", EffectTable::NameOf(callable) + " with an array to write to");
    if (!is_ufunc && arguments.count > 0) GetBy(callable, arguments.values[0]);
  } else if (IsOfTorchOps(type)) {
    static PyObject* const call = PyUnicode_InternFromString("__call__");
    CalledUnderName(type, call, LookUp(type, call, callable));
    NoteType(callable);
    DeepAll(arguments);
    for (const char* entry : {"_qualified_op_name", "_name"}) {
      const PlaceValue name =
          LoadPlace(callable, AccessKind::kAttribute, PythonRef(PyUnicode_InternFromString(entry)).get());
      if (name.object) asked_ = std::string(ViewOf(name.object.get()));
    }
    return kOperatorAnswer;
  } else if (!IsImmutable(type)) {
    static PyObject* const call = PyUnicode_InternFromString("__call__");
    PyObject* found = LookUp(type, call, callable);
    NoteType(callable);
    if (refused_ || found == nullptr) return kNone;
    if (PyFunction_Check(found)) {
      EnterFunction(found);
      return kNone;
    }
    return CallFromClass(found, callable, arguments);
  } else {
    Refuse("call", EffectTable::NameOf(callable));
  }
  return kNone;
}

/// What a class has under a name is called for one of its objects, which comes first where it is a method; what is
/// bound to something else already, or is any other object, is called as it is.
int Observer::CallFromClass(PyObject* found, PyObject* object, const Arguments& arguments) {
  if (Py_TYPE(found)->tp_descr_get == nullptr) return Call(found, arguments);
  if (!PyFunction_Check(found) && !EffectTable::IsNative(found)) {
    Refuse("call", std::string("a ") + Py_TYPE(found)->tp_name + " that a class calls for its objects");
    return kNone;
  }
  std::vector<PyObject*> values{object};
  values.insert(values.end(), arguments.values, arguments.values + arguments.count);
  return Call(found, {values.data(), values.size(), arguments.keyword_names});
}

/// A pattern with keys looks the subject's `get` up and calls it for each of them.
void Observer::MatchKeys(PyObject* subject, PyObject* keys) {
  static PyObject* const get = PyUnicode_InternFromString("get");
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  result_use_ = ResultUse::kContent;
  if (!PyTuple_Check(keys) || PyTuple_GET_SIZE(keys) == 0) return;
  PyTypeObject* type = Py_TYPE(subject);
  LoadAttribute(subject, get);
  const PlaceValue own = LoadPlace(subject, AccessKind::kAttribute, get);
  PyObject* const of_class = LookUpInClass(type, get);
  const bool is_plain = LookUpInClass(type, getattribute) == LookUpInClass(NativeBase(type), getattribute);
  const bool is_of_class = of_class != nullptr && (own.is_absent() || Py_TYPE(of_class)->tp_descr_set != nullptr);
  if (!is_plain || (own.is_absent() && !is_of_class))
    return Refuse("call", std::string("`get` of a ") + type->tp_name + ", which its class makes up");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys) && !refused_; ++i) {
    PyObject* const values[] = {PyTuple_GET_ITEM(keys, i), Py_None};
    AsKey(values[0]);
    const Arguments arguments{values, std::size(values), nullptr};
    const int tag = is_of_class ? CallFromClass(of_class, subject, arguments) : Call(own.object.get(), arguments);
    if (tag != kNone) Refuse("call", std::string("`get` of a ") + type->tp_name + ", called by a pattern");
  }
  result_use_ = ResultUse::kContent;
}

/// What it holds, read; the function is null where it is none.
Observer::Partial Observer::TakeApartPartial(PyObject* partial) {
  if (const auto number = log_.Find(partial)) {
    for (const char* field : {"func", "args", "keywords"}) log_.NoteField(*number, field);
  }
  Partial parts{PythonRef(PyObject_GetAttrString(partial, "func")), PythonRef(PyObject_GetAttrString(partial, "args")),
                PythonRef(PyObject_GetAttrString(partial, "keywords"))};
  DropError();
  if (!parts.function || !parts.bound || !parts.named || !PyDict_Check(parts.named.get())) return {};
  Iterate(parts.bound.get());
  Iterate(parts.named.get());
  return parts;
}

int Observer::CallPartial(PyObject* partial, const Arguments& arguments) {
  const auto [function, bound, named] = TakeApartPartial(partial);
  if (!function) return kNone;
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bound.get()); ++i) values.push_back(PyTuple_GET_ITEM(bound.get(), i));
  const size_t positional = arguments.positional();
  values.insert(values.end(), arguments.values, arguments.values + positional);
  // Keywords of the call stand before those that are bound under the same name.
  const PythonRef names(PyList_New(0));
  for (size_t i = positional; names && i < arguments.count; ++i) {
    values.push_back(arguments.values[i]);
    PyList_Append(names.get(), PyTuple_GET_ITEM(arguments.keyword_names, static_cast<Py_ssize_t>(i - positional)));
  }
  PyObject *name, *value;
  for (Py_ssize_t at = 0; names && PyDict_Next(named.get(), &at, &name, &value);) {
    if (PySequence_Contains(names.get(), name) != 0) continue;
    values.push_back(value);
    PyList_Append(names.get(), name);
  }
  const PythonRef all(names && PyList_GET_SIZE(names.get()) > 0 ? PyList_AsTuple(names.get()) : nullptr);
  DropError();
  return Call(function.get(), {values.data(), values.size(), all.get()});
}

int Observer::CallType(PyTypeObject* type, const Arguments& arguments) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (IsImmutable(type)) {
    if (type == &PyType_Type && arguments.count == 1) {
      ClassOf(arguments.values[0]);
      return kNone;
    }
    if (type == &PySuper_Type && arguments.count == 0) LoadClassCell();
    const Effect effect = EffectTable::Shared().EffectOfType(type);
    if (effect == Effect::kRefused) {
      Refuse("call", type->tp_name);
      return kNone;
    }
    consumer_ = object;
    has_keywords_ = arguments.keyword_names != nullptr;
    if (type == &PySet_Type || type == &PyFrozenSet_Type) {
      for (size_t i = 0; i < arguments.count; ++i) {
        PyObject* given = arguments.values[i];
        const bool is_list = PyList_Check(given) || PyTuple_Check(given);
        for (Py_ssize_t k = 0; is_list && k < PySequence_Fast_GET_SIZE(given); ++k)
          AsKey(PySequence_Fast_GET_ITEM(given, k));
      }
    }
    is_text_ = type == &PyUnicode_Type;
    if (effect != Effect::kNothing) DeepAll(arguments);
    result_use_ = IsCollected(type, arguments.values, arguments.count) ? ResultUse::kNo : ResultUse::kContent;
    if (PyType_IsSubtype(type, &PyDict_Type) && arguments.count > 0) Keys(arguments.values[0]);
    is_text_ = false;
    consumer_ = nullptr;
    Getters(arguments);
    if (type == &PyType_Type) NoteMaking(arguments);
    return type == &PyType_Type ? kMade : kNone;
  }
  PyTypeObject* meta = Py_TYPE(object);
  static PyObject* const call = PyUnicode_InternFromString("__call__");
  NoteType(object);
  if (!IsImmutable(meta)) {
    PyObject* found = LookUp(meta, call, object);
    CalledUnderName(meta, call, found);
    if (found != nullptr && PyFunction_Check(found)) {
      EnterFunction(found);
      return kNone;
    }
  }
  return Construct(type, arguments);
}

/// What `type.__call__` does: it asks the class itself how its objects are made.
int Observer::Construct(PyTypeObject* type, const Arguments& arguments) {
  if (IsImmutable(type)) return CallType(type, arguments);
  LookUpConstruction(type);
  const bool is_of_tensors = PyType_IsSubtype(type, TensorTypes()[0]) != 0;
  CheckMakes(type);
  if (is_of_tensors && arguments.count > 0 && HoldsTensor(arguments.values[0]))
    Escape(nullptr, "escape-item", "tensor of a list of tensors");
  // What the class takes over from one made in C reads its arguments there.
  if (type->tp_base != nullptr && type->tp_basicsize != PyBaseObject_Type.tp_basicsize) DeepAll(arguments);
  if (!PyType_IsSubtype(type, &PyType_Type)) return kNone;
  NoteMaking(arguments);
  return kMade;
}

/// Native code makes plain tensors.
void Observer::CheckMakes(PyTypeObject* type) {
  const auto plain = TensorTypes();
  if (PyType_IsSubtype(type, plain[0]) != 0 && std::ranges::find(plain, type) == plain.end())
    Refuse("subclass", std::string("the run makes a ") + type->tp_name);
}

/// What `type(name, bases, namespace)` asks of the bases and of what is in the namespace.
void Observer::NoteMaking(const Arguments& arguments) {
  if (arguments.positional() != 3) return;
  static PyObject* const hook = PyUnicode_InternFromString("__init_subclass__");
  static PyObject* const set_name = PyUnicode_InternFromString("__set_name__");
  PyObject *bases = arguments.values[1], *space = arguments.values[2], *key, *value;
  for (Py_ssize_t i = 0; PyTuple_Check(bases) && i < PyTuple_GET_SIZE(bases); ++i) {
    PyObject* base = PyTuple_GET_ITEM(bases, i);
    if (PyType_Check(base)) LoadFromType(reinterpret_cast<PyTypeObject*>(base), hook);
  }
  for (Py_ssize_t at = 0; PyDict_Check(space) && PyDict_Next(space, &at, &key, &value);) {
    if (IsImmutable(Py_TYPE(value)) || PyType_Check(value)) continue;
    LookUp(Py_TYPE(value), set_name, value);
    NoteType(value);
  }
}

/// Whether objects can be made of a class, which its allocation looks at.
void Observer::NoteAbstract(PyTypeObject* type) {
  if (const auto number = IsImmutable(type) ? std::nullopt : TypeNumber(type)) log_.NoteField(*number, "abstract");
}

void Observer::LookUpConstruction(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  for (const char* name : {"__new__", "__init__"}) {
    PyObject* found = LookUp(type, name, object);
    if (refused_ || found == nullptr) return;
    Bind(found, nullptr);
    // Of classes that pybind11 made the table says it, whose functions share a name.
    const bool is_known = PyInstanceMethod_Check(found) && EffectTable::Shared().EffectOfType(type) != Effect::kRefused;
    if (!is_known) CalledFromClass(found);
    if (PyFunction_Check(found)) EnterFunction(found);
  }
  NoteAbstract(type);
  NoteFinalizer(type);
}

/// Native calls make no such object, and nothing goes when they end.
void Observer::NoteFinalizer(PyTypeObject* type) {
  LookUp(type, "__del__", reinterpret_cast<PyObject*>(type));
  if (OwnFinalizer(type) != nullptr)
    Refuse("finalizer", std::string(QualnameOf(type)) + ".__del__ runs when an object goes");
}

}  // namespace ingot::client
