// SPDX-License-Identifier: Apache-2.0
// How the observer looks at calls: Python code runs in frames of its own, everything else is in the
// table.

#include <algorithm>

#include "client/native/callables.h"
#include "client/native/compiled.h"
#include "client/native/containers.h"
#include "client/native/drop_error.h"
#include "client/native/escapes.h"
#include "client/native/observer.h"
#include "client/native/origin.h"
#include "client/native/tensor_facts.h"

namespace ingot::client {
namespace {

/// Whether a field of a format string ("{0.name}") leads to an attribute, which native code reads.
bool NamesAttributes(std::string_view format) {
  bool is_in_field = false;
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    if (c == '{') {
      is_in_field = i + 1 < format.size() && format[i + 1] != '{';
      if (!is_in_field) ++i;
    } else if (c == ':' || c == '!' || c == '}') {
      is_in_field = false;
    } else if (c == '.' && is_in_field) {
      return true;
    }
  }
  return false;
}

/// Whether a function of numpy's is handed an array for its result: by name, or behind the others. Those of a
/// ufunc are as many as it says; methods take it behind the array, the axis and the type.
bool NamesOutput(PyObject* const* values, size_t count, PyObject* keyword_names, PyObject* ufunc = nullptr) {
  constexpr size_t kOfMethods = 3;
  for (Py_ssize_t i = 0; keyword_names != nullptr && i < PyTuple_GET_SIZE(keyword_names); ++i) {
    if (ViewOf(PyTuple_GET_ITEM(keyword_names, i)) == "out" && values[count + static_cast<size_t>(i)] != Py_None)
      return true;
  }
  const PythonRef most(ufunc == nullptr ? nullptr : PyObject_GetAttrString(ufunc, "nin"));
  const size_t inputs = most ? PyLong_AsSize_t(most.get()) : kOfMethods;
  return count > inputs;
}

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
    Seen own = Look(subject, Reading::kAttribute, key);
    PyObject* of_class = PyUnicode_Check(key) ? LookUpInClass(Py_TYPE(subject), key) : nullptr;
    PyObject* found = own.object ? own.object.get() : of_class;
    return PythonRef::Borrow(found == nullptr ? Py_None : found);
  }
  const bool is_plain = PyTuple_CheckExact(subject) || PyList_CheckExact(subject) || PyDict_CheckExact(subject);
  PythonRef part(is_plain ? PyObject_GetItem(subject, key) : Py_NewRef(Py_None));
  DropError();
  return part ? std::move(part) : PythonRef::Borrow(Py_None);
}

/// Whether a list, at any depth, holds tensors, whose elements PyTorch takes without any operator.
bool HoldsTensor(PyObject* data, int depth = 0) {
  constexpr int kDepthMax = 8;
  if (data == nullptr || depth > kDepthMax || !(PyList_Check(data) || PyTuple_Check(data))) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(data); ++i) {
    PyObject* one = PySequence_Fast_GET_ITEM(data, i);
    if (IsTensor(one) || HoldsTensor(one, depth + 1)) return true;
  }
  return false;
}

/// Whether a method asks which of the elements is less, or which one is equal to what it is given.
bool ComparesElements(std::string_view name) { return name.ends_with(".sort") || name.ends_with(".remove"); }

}  // namespace

void Observer::DeepAll(const Arguments& arguments, size_t from) {
  for (size_t i = from; i < arguments.count && !refused_; ++i) Deep(arguments.values[i]);
}

/// A tuple of the arguments of a call that text can say; null for others.
PythonRef Observer::PlainArguments(const Arguments& arguments) {
  for (size_t i = 0; i < arguments.count; ++i) LookAt(arguments.values[i]);
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
  if (!number || !values) return Refuse("call", Callables::NameOf(callable) + ", whose answer may be one from before");
  log_.NoteRead(*number, Reading::kAnswer, values.get());
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
    if (!Callables::IsGetter(getter)) continue;
    for (size_t k = 0; k < arguments.count; ++k) {
      if (k == i) continue;
      PyObject* one = arguments.values[k];
      const bool is_plain = PyList_Check(one) || PyTuple_Check(one) || PyDict_Check(one) || PyAnySet_Check(one);
      if (!is_plain && !IsAtom(one) && !PyFunction_Check(one) && !Callables::IsNative(one)) {
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
    if (Callables::Shared().IsMarkedPure(callable)) DeepAll(arguments);
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
  if (Callables::IsNative(callable)) return CallNative(callable, arguments);
  return CallOther(callable, arguments);
}

int Observer::CallOther(PyObject* callable, const Arguments& arguments) {
  const Depth depth(*this);
  if (refused_) return kNone;
  PyTypeObject* type = Py_TYPE(callable);
  const std::string_view name = type->tp_name;
  const auto number = log_.Find(callable);
  if (Callables::Shared().IsMarkedPure(callable)) {
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
      Refuse("call", Callables::NameOf(callable) + ", whose answer may be one from before");
    }
    return kAnswered;
  } else if (PyWeakref_CheckRef(callable)) {
    if (number) log_.NoteField(*number, "target");
  } else if (PyObject* const wrapped = CompiledTarget(callable)) {
    if (number) log_.NoteField(*number, "wrapped");
    static PyObject* const plain = PyUnicode_InternFromString("_call_impl");
    // What is called where there are no parts.
    if (IsModulePart(callable)) LoadAttribute(PyMethod_GET_SELF(wrapped), plain);
    return Call(wrapped, arguments);
  } else if (name == "numpy.ufunc" || Callables::IsGetter(callable) || name == "operator.methodcaller") {
    if (name == "operator.methodcaller") Refuse("call", std::string(name));
    DeepAll(arguments);
    const bool is_ufunc = name == "numpy.ufunc";
    if (!is_ufunc) Operand(callable);
    if (is_ufunc && NamesOutput(arguments.values, arguments.positional(), arguments.keyword_names, callable))
      Refuse("side-effect", Callables::NameOf(callable) + " with an array to write to");
    if (!is_ufunc && arguments.count > 0) GetBy(callable, arguments.values[0]);
  } else if (ModuleOf(type) == "torch._ops") {
    DeepAll(arguments);
  } else if (!IsImmutable(type)) {
    static PyObject* const call = PyUnicode_InternFromString("__call__");
    PyObject* found = LookUp(type, call, callable);
    if (refused_ || found == nullptr) return kNone;
    if (PyFunction_Check(found)) {
      EnterFunction(found);
      return kNone;
    }
    return CallFromClass(found, callable, arguments);
  } else {
    Refuse("call", Callables::NameOf(callable));
  }
  return kNone;
}

/// What a class has under a name is called for one of its objects, which comes first where it is a method; what is
/// bound to something else already, or is any other object, is called as it is.
int Observer::CallFromClass(PyObject* found, PyObject* object, const Arguments& arguments) {
  if (Py_TYPE(found)->tp_descr_get == nullptr) return Call(found, arguments);
  if (!PyFunction_Check(found) && !Callables::IsNative(found)) {
    Refuse("call", std::string("a ") + Py_TYPE(found)->tp_name + " that a class calls for its objects");
    return kNone;
  }
  std::vector<PyObject*> values{object};
  values.insert(values.end(), arguments.values, arguments.values + arguments.count);
  return Call(found, {values.data(), values.size(), arguments.keyword_names});
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
    const Effect effect = Callables::Shared().EffectOfType(type);
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
    taking_ = IsCollected(type, arguments.values, arguments.count) ? Taking::kNo : Taking::kContent;
    if (PyType_IsSubtype(type, &PyDict_Type) && arguments.count > 0) Keys(arguments.values[0]);
    is_text_ = false;
    consumer_ = nullptr;
    Getters(arguments);
    if (type == &PyType_Type) NoteMaking(arguments);
    return type == &PyType_Type ? kMade : kNone;
  }
  PyTypeObject* meta = Py_TYPE(object);
  static PyObject* const call = PyUnicode_InternFromString("__call__");
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
  if (is_of_tensors && arguments.count > 0 && HoldsTensor(arguments.values[0]))
    Escape(nullptr, "escape-item", "tensor of a list of tensors");
  // What the class takes over from one made in C reads its arguments there.
  if (type->tp_base != nullptr && type->tp_basicsize != PyBaseObject_Type.tp_basicsize) DeepAll(arguments);
  if (!PyType_IsSubtype(type, &PyType_Type)) return kNone;
  NoteMaking(arguments);
  return kMade;
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
    Bind(found);
    // Of classes that pybind11 made the table says it, whose functions share a name.
    const bool is_known = PyInstanceMethod_Check(found) && Callables::Shared().EffectOfType(type) != Effect::kRefused;
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

/// A method of a container that changes it.
void Observer::Change(PyObject* callable, const Arguments& arguments, bool reads) {
  if (arguments.count == 0) return;
  PyObject* self = arguments.values[0];
  const auto number = log_.Find(self);
  const std::string name = Callables::NameOf(callable);
  DeepAll(arguments, 1);
  if (PyDict_Check(self) && arguments.count > 1) Keys(arguments.values[1]);
  if (ComparesElements(name)) LookInto(self);
  if (!number) {
    IsGuardedElsewhere(self, "changed");
    return;
  }
  if (reads) Deep(self);  // To find what it removes, or to put in order, it looks into the elements.
  if (refused_) return;
  if (reads) log_.NoteWhole(*number);
  std::vector<PyObject*> values(arguments.values + 1, arguments.values + arguments.positional());
  if (arguments.keyword_names == nullptr) return NoteChange(*number, name, values);
  // The record knows methods without keywords: others do the same.
  PyObject* const keyword = PyTuple_GET_ITEM(arguments.keyword_names, 0);
  PyObject* const given = arguments.values[arguments.positional()];
  const bool is_alone = PyTuple_GET_SIZE(arguments.keyword_names) == 1;
  const auto is_named = [keyword](const char* text) { return PyUnicode_CompareWithASCIIString(keyword, text) == 0; };
  if (PyDict_Check(self) && name.ends_with(".update")) {
    const PythonRef entries(PyDict_New());
    for (size_t i = arguments.positional(); entries && i < arguments.count; ++i)
      PyDict_SetItem(entries.get(),
                     PyTuple_GET_ITEM(arguments.keyword_names, static_cast<Py_ssize_t>(i - arguments.positional())),
                     arguments.values[i]);
    if (!values.empty()) NoteChange(*number, name, values);
    return NoteChange(*number, name, {entries.get()});
  }
  if (is_alone && is_named("last") && (name.ends_with(".popitem") || name.ends_with(".move_to_end"))) {
    values.push_back(given);
    return NoteChange(*number, name, values);
  }
  if (is_alone && is_named("reverse") && PyBool_Check(given) && name == "list.sort") {
    // What is equal stays in order.
    if (given == Py_True) NoteChange(*number, "list.reverse", {});
    NoteChange(*number, name, {});
    if (given == Py_True) NoteChange(*number, "list.reverse", {});
    return;
  }
  Refuse("side-effect", name + " with keywords changes " + log_.PathOf(*number));
}

/// `print` finds its file in `sys`, where it is given none, and calls what that has.
void Observer::Print(const Arguments& arguments) {
  static PyObject* const standard = PyUnicode_InternFromString("stdout");
  PyObject* const sys = LoadedModule("sys");
  PyObject* file = nullptr;
  for (size_t i = arguments.positional(); i < arguments.count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(arguments.keyword_names, static_cast<Py_ssize_t>(i - arguments.positional()));
    if (ViewOf(name) == "file" && arguments.values[i] != Py_None) file = arguments.values[i];
  }
  if (file == nullptr && sys != nullptr) {
    LoadAttribute(sys, standard);
    file = PyDict_GetItemWithError(PyModule_GetDict(sys), standard);
  }
  for (size_t i = 0; i < arguments.count; ++i) {
    if (arguments.values[i] != file) Text(arguments.values[i]);
  }
  for (const char* name : {"write", "flush"}) {
    const PythonRef text(PyUnicode_InternFromString(name));
    if (file != nullptr && file != Py_None && !refused_) LoadAttribute(file, text.get());
  }
}

void Observer::NoteChange(Number number, const std::string& name, const std::vector<PyObject*>& values) {
  if (refused_) return;
  const auto kept = Operands(log_.At(number), name, values.data(), values.size());
  if (!kept) return;
  std::vector<PyObject*> taken;
  for (const PythonRef& one : *kept) taken.push_back(one.get());
  log_.NoteMethod(number, name.c_str(), taken.data(), taken.size());
}

int Observer::CallNative(PyObject* callable, const Arguments& given) {
  // A bound method says its object first, as an unbound one does.
  std::vector<PyObject*> bound;
  Arguments arguments = given;
  PyObject* self = SelfOf(callable);
  if (Py_TYPE(callable) == BoundSlotType() && log_.IsOutside(callable))
    Refuse("call", Callables::NameOf(callable) + ", bound before");
  if (self != nullptr && !(PyType_Check(self) && PyCFunction_Check(callable))) {
    bound.push_back(self);
    bound.insert(bound.end(), given.values, given.values + given.count);
    arguments = {bound.data(), bound.size(), given.keyword_names};
  }
  consumer_ = callable;
  has_keywords_ = arguments.keyword_names != nullptr;
  AsKeys(callable, arguments);
  const int tag = CallByEffect(callable, arguments);
  consumer_ = nullptr;
  return tag;
}

/// An object of a class of the program's, which native code may ask for an index, a length or a hash; or what holds
/// one.
bool Observer::HoldsObjects(PyObject* value, int depth) {
  constexpr int kDepthMax = 4;
  if (value == nullptr || IsTensor(value) || IsPart(value) || depth > kDepthMax) return false;
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    return HoldsObjects(slice->start) || HoldsObjects(slice->stop) || HoldsObjects(slice->step);
  }
  if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value)) return !IsImmutable(Py_TYPE(value));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (HoldsObjects(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return true;
  }
  return false;
}

/// What native code with this effect makes of what Python code gives it. Only what is named here hands it on.
Taking Observer::TakingOf(Effect effect, const Arguments& arguments) const {
  const auto holds = [&](size_t i) { return i < arguments.count && HoldsObjects(arguments.values[i]); };
  switch (effect) {
    case Effect::kGetAttribute:
    case Effect::kSetAttribute:
    case Effect::kDeleteAttribute:
    case Effect::kIterate:
    case Effect::kNext:
    case Effect::kCallsSelf:
    case Effect::kConstruct:
    case Effect::kBind:
    case Effect::kApply:
    case Effect::kImport:
    case Effect::kMakeClass: return Taking::kNo;
    case Effect::kGetItem:
    case Effect::kSetItem:
    case Effect::kDeleteItem: return holds(1) ? Taking::kContent : Taking::kNo;
    // They call functions that take their place, and may be asked for an index.
    case Effect::kOperator:
      for (size_t i = 0; i < arguments.count; ++i) {
        if (holds(i)) return Taking::kContent;
      }
      return Taking::kNo;
    case Effect::kLength: return awaits_length_ ? Taking::kLength : Taking::kContent;
    case Effect::kTruth: return Taking::kTruth;
    default: return Taking::kContent;
  }
}

int Observer::CallByEffect(PyObject* callable, const Arguments& arguments) {
  PyObject* const* values = arguments.values;
  const size_t count = arguments.positional();
  const Effect effect = Callables::Shared().EffectOf(callable);
  taking_ = TakingOf(effect, arguments);
  switch (effect) {
    case Effect::kRefused: {
      const std::string name = Callables::NameOf(callable);
      Refuse(name.find("autocast") == std::string::npos ? "call" : "autocast", name);
      break;
    }
    case Effect::kIdentity:
      for (size_t i = 0; i < count; ++i) LookAt(values[i]);
      if (count == 2) Identity(values[0], values[1]);
      break;
    case Effect::kClass:
      if (count > 0) ClassOf(values[0]);
      [[fallthrough]];
    case Effect::kNothing:
      for (size_t i = 0; i < count; ++i) {
        if (PyType_Check(values[i])) NoteSpecial(Py_TYPE(values[i]), values[i]);
        // The classes that `isinstance` is given.
        if (PyTuple_Check(values[i]) || ModuleOf(Py_TYPE(values[i])) == "types") Deep(values[i]);
      }
      break;
    case Effect::kPure: [[fallthrough]];
    case Effect::kOperator:
      DeepAll(arguments);
      Getters(arguments);
      if (count > 0 && IsTensor(values[0]) && Callables::ShortNameOf(callable) == "requires_grad_") {
        if (const auto number = log_.Find(values[0])) log_.NoteField(*number, "grad");
        if (log_.IsArgument(values[0])) Refuse("side-effect", "whether an argument requires a gradient was set");
      }
      break;
    case Effect::kArray:
      DeepAll(arguments);
      if (NamesOutput(arguments.values, count, arguments.keyword_names))
        Refuse("side-effect", Callables::NameOf(callable) + " with an array to write to");
      break;
    case Effect::kFill:
      DeepAll(arguments, 1);
      if (count > 1 && PyDict_Check(values[0])) Keys(values[1]);
      // A counter is filled by its own functions, where its class has such.
      if (count > 1 && PyDict_Check(values[0]) && !IsImmutable(Py_TYPE(values[0]))) {
        for (const char* name : {"get", "__setitem__"}) LookUp(Py_TYPE(values[0]), name, values[0]);
      }
      if (count > 0 && log_.IsArgument(values[0]) && IsGuardedElsewhere(values[0], "filled")) break;
      if (count > 0 && log_.IsOutside(values[0]))
        Refuse("side-effect",
               Callables::NameOf(callable) + " changes a " + Py_TYPE(values[0])->tp_name + " that existed before");
      break;
    case Effect::kMakeTensor: {
      // Of a tensor's method, or of the class, data come second.
      const size_t at = count > 0 && (IsTensor(values[0]) || PyType_Check(values[0])) && count > 1 ? 1 : 0;
      PyObject* data = count > at ? values[at] : nullptr;
      for (size_t i = count; data == nullptr && i < arguments.count; ++i) {
        const std::string_view name =
            ViewOf(PyTuple_GET_ITEM(arguments.keyword_names, static_cast<Py_ssize_t>(i - count)));
        if (name == "data" || name == "obj") data = values[i];
      }
      if (SharesMemory(data)) Escape(nullptr, "escape-memory", "tensor of an array or buffer");
      if (HoldsTensor(data)) Escape(nullptr, "escape-item", "tensor of a list of tensors");
      DeepAll(arguments);
      break;
    }
    case Effect::kEscape: {
      const std::string name = Callables::NameOf(callable);
      const std::string_view method = std::string_view(name).substr(name.rfind('.') + 1);
      DeepAll(arguments);
      Escape(count > 0 ? values[0] : nullptr, EscapeOf(method), method);
      break;
    }
    case Effect::kToList:
      DeepAll(arguments);
      if (count > 0 && IsTensor(values[0]) && !is_list_followed_) hooks_.list(values[0]);
      break;
    case Effect::kState: return kSetting;
    case Effect::kAnswer: Answer(callable, arguments); return kSetting;
    case Effect::kOffset:
      if (count > 0 && (log_.IsArgument(values[0]) || log_.IsOutside(values[0]))) {
        Refuse("call", Callables::NameOf(callable));
      }
      break;
    case Effect::kContent: {
      const auto number = count > 0 ? log_.Find(values[0]) : std::nullopt;
      if (number) log_.NoteField(*number, "content");
      DeepAll(arguments, 1);
      break;
    }
    case Effect::kRegistry:
      if (count > 0 && PyType_Check(values[0])) {
        const auto number = TypeNumber(reinterpret_cast<PyTypeObject*>(values[0]));
        if (number) log_.NoteField(*number, "registry");
        if (number) log_.NoteField(*number, "special");
      }
      break;
    case Effect::kAddress:
      if (count > 0) Address(values[0]);
      break;
    case Effect::kText:
      if (count > 0 && PyUnicode_Check(values[0]) && NamesAttributes(ViewOf(values[0])) &&
          Callables::NameOf(callable).starts_with("str.format"))
        Refuse("call", Callables::NameOf(callable) + " that reads attributes");
      for (size_t i = 0; i < arguments.count; ++i) Text(values[i]);
      break;
    case Effect::kHash:
      if (count > 0) Hash(values[0]);
      DeepAll(arguments);
      break;
    case Effect::kAcquire:
      if (arguments.count > 1) Refuse("call", Callables::NameOf(callable) + " that may not wait");
      ++locks_[PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : count > 0 ? values[0] : nullptr];
      break;
    case Effect::kRelease:
      --locks_[PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : count > 0 ? values[0] : nullptr];
      break;
    case Effect::kLength:
      if (count > 0) PyCFunction_Check(callable) ? Length(values[0]) : OwnLength(values[0]);
      break;
    case Effect::kTruth:
      if (count > 0) Truth(values[0]);
      break;
    case Effect::kGetAttribute:
      if (count <= 1 || !PyUnicode_Check(values[1])) break;
      if (PyCFunction_Check(callable) || PyType_Check(values[0]) || PyModule_Check(values[0])) {
        LoadAttribute(values[0], values[1]);
      } else {
        LoadGeneric(values[0], values[1], false);  // object.__getattribute__, from a class's own.
      }
      break;
    case Effect::kSetAttribute:
    case Effect::kDeleteAttribute: {
      if (count < 2) break;
      PyObject* value = effect == Effect::kSetAttribute && count > 2 ? values[2] : nullptr;
      // object.__setattr__ itself is not sent to the class's own.
      PyCFunction_Check(callable) ? StoreAttribute(values[0], values[1], value)
                                  : StoreGeneric(values[0], values[1], value);
      break;
    }
    case Effect::kGetItem:
      if (count > 1) Subscript(values[0], values[1]);
      break;
    case Effect::kSetItem:
    case Effect::kDeleteItem: {
      if (count < 2) break;
      PyObject* value = effect == Effect::kSetItem && count > 2 ? values[2] : nullptr;
      if (PyCFunction_Check(callable)) {  // operator.setitem
        StoreSubscript(values[0], values[1], value);
      } else {  // dict.__setitem__ itself is not sent to the class's own.
        StoreItem(values[0], values[1], value, Callables::NameOf(callable));
      }
      break;
    }
    case Effect::kContains:
      if (count > 1) Contains(values[0], values[1]);
      break;
    case Effect::kGetEntry:
      if (count > 1) Contains(values[0], values[1]);
      break;
    case Effect::kWhole:
      if (count > 0) Iterate(values[0]);
      DeepAll(arguments, 1);
      break;
    case Effect::kAdd:
    case Effect::kChange: Change(callable, arguments, effect == Effect::kChange); break;
    case Effect::kIterate: DeepAll(arguments); break;
    case Effect::kNext:
      if (count > 0) Next(values[0]);
      // It gets a traceback.
      for (size_t i = 1; i < arguments.count; ++i) {
        if (PyExceptionInstance_Check(values[i]) && log_.IsOutside(values[i]))
          Refuse("side-effect", "an exception from before is thrown");
      }
      break;
    case Effect::kImport:
      if (count > 0) Import(values[0]);
      return kImported;
    case Effect::kMakeClass:
      // What a class statement asks of the bases and their metaclasses.
      for (size_t i = 2; i < arguments.count && !refused_; ++i) {
        if (!PyType_Check(values[i])) continue;
        static PyObject* const hook = PyUnicode_InternFromString("__init_subclass__");
        auto* base = reinterpret_cast<PyTypeObject*>(values[i]);
        NoteType(values[i]);
        if (!IsImmutable(base) && !PyType_IsSubtype(base, &PyType_Type)) LoadFromType(base, hook);
        PyTypeObject* meta = PyType_IsSubtype(base, &PyType_Type) ? base : Py_TYPE(values[i]);
        if (IsImmutable(meta)) continue;
        LookUpConstruction(meta);
        for (const char* name : {"__prepare__", "mro"}) LookUp(meta, name, reinterpret_cast<PyObject*>(meta));
      }
      ++classes_in_making_;
      return kMadeClass;
    case Effect::kOwnDict: {
      if (count == 0) break;
      if (PyType_Check(values[0])) Refuse("class-dict", "vars of a class");
      static PyObject* const dict = PyUnicode_InternFromString("__dict__");
      LoadAttribute(values[0], dict);  // Where the class has none of these, it is asked as for any other name.
      break;
    }
    case Effect::kGlobals: {
      const auto module = frame_globals_ == nullptr ? std::nullopt : ModuleOfGlobals(frame_globals_);
      if (module) log_.NoteField(*module, "dict");
      if (!module) Refuse("call", "globals of code that belongs to no module");
      break;
    }
    case Effect::kContext: {
      const auto number = count > 0 ? log_.Find(values[0]) : std::nullopt;
      if (number) log_.NoteField(*number, "context");
      return kSetting;
    }
    case Effect::kSetContext: {
      const auto number = count > 0 ? log_.Find(values[0]) : std::nullopt;
      if (!number) break;
      log_.NoteField(*number, "context");
      if (count > 1) LookAt(values[1]);
      static PyObject* const context = PyUnicode_InternFromString("context");
      borrowed_contexts_.emplace(*number, *Look(values[0], Reading::kField, context).content);
      if (count > 1 && context_values_.insert(values[1]).second) held_.push_back(PythonRef::Borrow(values[1]));
      break;
    }
    case Effect::kApply:
      DeepAll(arguments);
      // Bound to a class, which is no argument then.
      if (PyObject* owner = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
          owner != nullptr && PyType_Check(owner)) {
        for (const char* name : {"_backward_cls", "forward", "setup_context"}) {
          const PythonRef text(PyUnicode_InternFromString(name));
          LoadFromType(reinterpret_cast<PyTypeObject*>(owner), text.get());
        }
      }
      break;
    case Effect::kReduce:
      if (count > 0) State(values[0]);
      break;
    case Effect::kAllocate:
      if (count > 0 && PyType_Check(values[0])) NoteAbstract(reinterpret_cast<PyTypeObject*>(values[0]));
      if (count > 0 && PyType_Check(values[0])) NoteFinalizer(reinterpret_cast<PyTypeObject*>(values[0]));
      break;
    case Effect::kConstruct:
      consumer_ = nullptr;
      if (arguments.count > 0 && PyType_Check(values[0])) {
        return Construct(reinterpret_cast<PyTypeObject*>(values[0]),
                         {values + 1, arguments.count - 1, arguments.keyword_names});
      }
      break;
    case Effect::kWarn: {
      DeepAll(arguments);
      PyObject* const warnings = LoadedModule("warnings");
      // A filter may make an error of it.
      if (const auto number = warnings ? ModuleNumber(warnings) : std::nullopt) log_.NoteField(*number, "errors");
      break;
    }
    case Effect::kMode: {
      // pybind11's classes share the names of such functions, whose first argument is pybind11's own. The results say
      // whether they were made in inference mode.
      const std::string mode = count > 1 ? Callables::NameOf(values[1]) : "";
      if (mode != "torch._C._InferenceMode") Refuse("call", Callables::NameOf(callable) + " of " + mode);
      break;
    }
    case Effect::kPrint: Print(arguments); break;
    case Effect::kBases:
      // Bound to a class, which is no argument then.
      if (PyObject* owner = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
          owner != nullptr && PyType_Check(owner))
        ClassOf(owner);
      for (size_t i = 0; i < count; ++i) ClassOf(values[i]);
      break;
    case Effect::kBind:
      if (count > 0) Bind(values[0], count > 1 && values[1] != Py_None ? values[1] : nullptr);
      if (count > 1) ClassOf(values[1]);
      break;
    case Effect::kCallsSelf:
      consumer_ = nullptr;
      if (arguments.count > 0) return Call(values[0], {values + 1, arguments.count - 1, arguments.keyword_names});
      break;
  }
  return kNone;
}

}  // namespace ingot::client
