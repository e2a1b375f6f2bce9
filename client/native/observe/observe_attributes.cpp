// SPDX-License-Identifier: Apache-2.0
// How the observer reads attributes: the places that Python's own look-up consults, in its order.

#include <algorithm>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/effects/escapes.h"
#include "client/native/observe/observer.h"
#include "client/native/places/containers.h"
#include "client/native/places/dataclass_fields.h"
#include "client/native/places/part_fields.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/torch_ops.h"

namespace ingot::client {
namespace {

bool HasText(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

/// Getters made in C have their own names, whatever a class calls them.
bool IsGetter(PyObject* found) {
  return found != nullptr &&
         (PyObject_TypeCheck(found, &PyGetSetDescr_Type) || PyObject_TypeCheck(found, &PyMemberDescr_Type));
}

std::string TextOf(PyTypeObject* type, PyObject* name) {
  return std::string(QualnameOf(type)) + "." + std::string(ViewOf(name));
}

/// Where a program's text lies: that says nothing of what it does, and code that has moved is the
/// same code.
bool IsPlaceInText(PyTypeObject* type, PyObject* name) {
  constexpr std::string_view kPlaces =
      " co_filename co_firstlineno co_lines co_linetable co_lnotab co_positions f_lasti f_lineno "
      "tb_lasti tb_lineno ";
  const bool is_about_code = type == &PyCode_Type || type == &PyFrame_Type || type == &PyTraceBack_Type;
  return is_about_code && kPlaces.find(" " + std::string(ViewOf(name)) + " ") != kPlaces.npos;
}

}  // namespace

void Observer::LoadAttribute(PyObject* object, PyObject* name) {
  if (!PyUnicode_Check(name) || IsAtom(object)) return;
  const bool is_by_native_code = follows_sizes_ && !is_followed_ && IsTensor(object);
  if (is_by_native_code && (HasText(name, "shape") || HasText(name, "nbytes"))) FixTensor(object);
  if (IsCached(object, name)) return;
  LoadUncached(object, name);
  // The log holds what is outside, and names are held here: addresses stay their own.
  if (log_.IsOutside(object) && log_.writes().size() == loaded_before_writes_ && loaded_.insert({object, name}).second)
    held_.push_back(PythonRef::Borrow(name));
}

bool Observer::IsCached(PyObject* object, PyObject* name) {
  if (log_.writes().size() != loaded_before_writes_) {
    loaded_.clear();
    loaded_before_writes_ = log_.writes().size();
  }
  return loaded_.contains({object, name});
}

void Observer::LoadUncached(PyObject* object, PyObject* name) {
  if (MakesOperators(Py_TYPE(object)) && LookUpInClass(Py_TYPE(object), name) == nullptr &&
      LoadPlace(object, AccessKind::kAttribute, name).is_absent())
    return LoadNoOperator(object, name);
  if (PyModule_Check(object)) return LoadFromModule(object, name);
  if (PyType_Check(object)) return LoadFromType(reinterpret_cast<PyTypeObject*>(object), name);
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_getattro == PyObject_GenericGetAttr) return LoadGeneric(object, name, false);
  if (type == &PySuper_Type) return LoadFromSuper(object, name);
  if (PyMethod_Check(object)) {
    TakeApart(object);
    return LoadAttribute(PyMethod_GET_FUNCTION(object), name);
  }
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  if (!IsImmutable(type)) {
    PyObject* general = LookUp(type, getattribute, object);
    if (general != nullptr && PyFunction_Check(general)) return FallsBack(object);  // A frame of its own.
    PyObject* hook = LookUpInClass(type, getattr);
    const bool is_plain = general != nullptr && Py_TYPE(general) == &PyWrapperDescr_Type &&
                          (reinterpret_cast<PyDescrObject*>(general)->d_type == &PyBaseObject_Type ||
                           reinterpret_cast<PyDescrObject*>(general)->d_type->tp_getattro == PyObject_GenericGetAttr);
    if (is_plain) return LoadGeneric(object, name, hook != nullptr);
  }
  if (std::string_view(type->tp_name) == "types.UnionType") return Operand(object);  // It stays what it is.
  if (std::string_view(type->tp_name) == "types.GenericAlias") {
    Operand(object);
    // What it does not have itself it asks of the class that it is made of.
    const PythonRef origin(PyObject_GetAttrString(object, "__origin__"));
    DropError();
    return origin ? LoadAttribute(origin.get(), name) : void();
  }
  Refuse("foreign-attribute", TextOf(type, name));
}

/// A name that leads to no operator may come to do so, and nothing tells of it. Of other names an operator asks the
/// function that it stands for.
void Observer::LoadNoOperator(PyObject* object, PyObject* name) {
  static PyObject* const op = PyUnicode_InternFromString("_op");
  const PlaceValue stands_for = PyModule_Check(object) ? PlaceValue() : LoadPlace(object, AccessKind::kAttribute, op);
  if (stands_for.is_absent() || !ViewOf(name).starts_with("__"))
    return Refuse("foreign-attribute", TextOf(Py_TYPE(object), name) + ", which names no operator so far");
  LoadGeneric(object, name, true);
  LoadAttribute(object, op);
  LoadAttribute(stands_for.object.get(), name);
}

/// A function that no reading has led to, a member of a set, is found by its own name.
void Observer::NoteFunctionByName(PyObject* object) {
  if (log_.Find(object) || fresh_.contains(object) || made_.Contain(object)) return;
  const auto* function = reinterpret_cast<PyFunctionObject*>(object);
  const auto path = CanonicalPath(object, ViewOf(function->func_module), ViewOf(function->func_qualname));
  if (path && !path->ends_with(':')) log_.AddRoot(object, *path);
}

void Observer::LoadGeneric(PyObject* object, PyObject* name, bool has_hook) {
  PyTypeObject* type = Py_TYPE(object);
  if (IsPlaceInText(type, name)) return Refuse("foreign-attribute", TextOf(type, name));
  if (PyFunction_Check(object)) NoteFunctionByName(object);
  const auto number = log_.Find(object);
  // What no reading has led to is the run's own, or something has led to it that nobody saw.
  const bool is_native = NativeBase(type) == type && !PyFunction_Check(object);
  const bool is_explained = number || is_native || IsTensor(object) || log_.IsArgument(object) ||
                            ModuleOf(type).starts_with("ingot.") || fresh_.contains(object) || made_.Contain(object);
  if (!is_explained)
    return Refuse("unexplained-object", TextOf(type, name) + " of an object that existed before, to which nothing led");
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  LookUp(type, getattribute, object);  // Not there, or not the class's own; it may get one.
  PyObject* found = LookUp(type, name, object);
  NoteProtocol(found);
  if (refused_) return;
  // A class that has a name is told by what the place of its object holds; of others there may be many.
  const auto of_type = number ? log_.Find(reinterpret_cast<PyObject*>(type)) : std::nullopt;
  if (number && (type->tp_dictoffset == 0 || (of_type && !log_.IsNamed(*of_type)))) NoteType(object);
  if (found != nullptr && Py_TYPE(found)->tp_descr_set != nullptr) {
    if (!PyObject_TypeCheck(found, &PyGetSetDescr_Type)) NoteType(object);
    if (PyObject_TypeCheck(found, &PyMemberDescr_Type)) {
      if (IsImmutable(type)) {
        Getter(object, found);
      } else if (number) {
        log_.NoteRead(*number, AccessKind::kSlot, name);
      }
      if (!IsImmutable(type)) CheckField(object, name);
      if (!LoadPlace(object, AccessKind::kSlot, name).object) LoadMissing(object, name, has_hook);
    } else if (PyObject_TypeCheck(found, &PyGetSetDescr_Type)) {
      Getter(object, found);
      if (!HasText(PyDescr_NAME(found), "__dict__") && !HasText(PyDescr_NAME(found), "__class__")) FallsBack(object);
    } else {
      Bind(found, object);
      if (std::string_view(Py_TYPE(found)->tp_name).ends_with("_tuplegetter") && number) log_.NoteWhole(*number);
      FallsBack(object);
    }
    return;
  }
  PyObject* dict = OwnDict(object);
  const bool is_there = dict != nullptr && EntryIn(dict, name) != nullptr;
  if (number && dict != nullptr) log_.NoteRead(*number, AccessKind::kAttribute, name);
  // Of marks the shape of a call says nothing.
  // Of tensors it says which attributes they have: under another name they are as good as without any.
  const bool is_told = IsTensor(object) && HasTextNames(object);
  if (is_there || IsMark(name) || (HasOwnAttributes(object) && !is_told)) CheckField(object, name);
  if (is_there) return;
  if (found == nullptr) return LoadMissing(object, name, has_hook);
  Bind(found, object);
  const bool may_raise = Py_TYPE(found)->tp_descr_get != nullptr && !PyFunction_Check(found) &&
                         !EffectTable::IsNative(found) && !PyObject_TypeCheck(found, &PyStaticMethod_Type);
  if (may_raise) FallsBack(object);
}

/// What neither object nor class has.
void Observer::LoadMissing(PyObject* object, PyObject* name, bool has_hook) {
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  if (!has_hook) {
    LookUp(type, getattr, object);
    return;
  }
  PyObject* hook = LookUp(type, getattr, object);
  if (hook == nullptr || !EffectTable::IsNative(hook)) return LookUpSpecial(object, "__getattr__");
  CallFromClass(hook, object, {&name, 1, nullptr});  // `__getattr__ = dict.__getitem__`
}

/// A getter that raises AttributeError sends whoever reads to `__getattr__`, and that it will raise is known to nobody
/// before. The frame of a function shows itself; of what another hook does there would be no word.
void Observer::FallsBack(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  if (IsImmutable(type) || LookUpInClass(type, getattr) == nullptr) return;
  if (!PyFunction_Check(LookUp(type, getattr, object)))
    Refuse("call", TextOf(type, getattr) + ", which is no function");
}

/// Of an argument, whatever else leads to it in this call, the shape says the fields of a dataclass, and whether there
/// are other attributes; not which.
void Observer::CheckField(PyObject* object, PyObject* name) {
  if (!log_.IsArgument(object)) return;
  PyObject* const fields = FieldsOf(Py_TYPE(object));
  if (fields == nullptr || PySequence_Contains(fields, name) != 1)
    RefuseArgument("argument-attribute", object, TextOf(Py_TYPE(object), name) + " of an argument");
}

/// Whether an object that a class has under a name is a descriptor, its own class says, which may change.
void Observer::NoteProtocol(PyObject* found) {
  if (found == nullptr || IsImmutable(Py_TYPE(found)) || PyType_Check(found)) return;
  for (const char* name : {"__get__", "__set__", "__delete__"}) LookUp(Py_TYPE(found), name, found);
}

/// What reading through a descriptor reads of the descriptor itself, and what native code that it calls reads of the
/// object.
void Observer::Bind(PyObject* found, PyObject* object) {
  PyTypeObject* type = Py_TYPE(found);
  const auto number = log_.Find(found);
  if (object != nullptr && PyObject_TypeCheck(found, &PyGetSetDescr_Type)) return Getter(object, found);
  if (PyFunction_Check(found) || EffectTable::IsNative(found) || type->tp_descr_get == nullptr) return;
  if (PyObject_TypeCheck(found, &PyProperty_Type)) {
    if (number) log_.NoteField(*number, "get");
    const PythonRef get(PyObject_GetAttrString(found, "fget"));
    DropError();
    if (get && !PyFunction_Check(get.get())) NoteType(get.get());
    if (get && object != nullptr && !PyFunction_Check(get.get())) {
      Call(get.get(), {&object, 1, nullptr});
    } else if (get) {
      Callee(get.get());
    }
  } else if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type) {
    if (number) log_.NoteField(*number, "wrapped");
  } else if (!IsImmutable(type)) {
    LookUpSpecial(found, "__get__");
  } else if (std::string_view(type->tp_name).ends_with("_tuplegetter")) {
    Operand(found);
  } else if (type != &PyMethod_Type && !std::string_view(type->tp_name).ends_with("_lru_cache_wrapper") &&
             std::string_view(type->tp_name) != "instancemethod" && !PyType_IsSubtype(type, CompiledType())) {
    Refuse("foreign-descriptor", type->tp_name);
  }
}

/// A property of a module's class, or another descriptor that is no function's: what modules themselves have is read
/// otherwise, and what `__get__` does that is a function shows itself.
void Observer::BindToModule(PyObject* found, PyObject* module) {
  if (found == nullptr || Py_TYPE(found)->tp_descr_get == nullptr) return;
  static PyObject* const name = PyUnicode_InternFromString("__get__");
  PyObject* const get = LookUpInClass(Py_TYPE(found), name);
  if (IsGetter(found) || (get != nullptr && PyFunction_Check(get))) return;
  Bind(found, module);
  FallsBack(module);
}

void Observer::LoadFromModule(PyObject* module, PyObject* name) {
  PyTypeObject* type = Py_TYPE(module);
  const auto number = ModuleNumber(module);
  if (!number) return;
  log_.NoteField(*number, "type");
  if (type != &PyModule_Type) {
    static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
    PyObject* const general = LookUp(type, getattribute, module);
    if (general != nullptr && PyFunction_Check(general)) return FallsBack(module);  // A frame of its own.
    BindToModule(LookUp(type, name, module), module);
  }
  log_.NoteRead(*number, AccessKind::kAttribute, name);
  PyObject* dict = PyModule_GetDict(module);
  if (PyDict_GetItemWithError(dict, name) != nullptr) return;
  if (HasText(name, "__dict__")) return log_.NoteField(*number, "dict");
  static PyObject* const hook = PyUnicode_InternFromString("__getattr__");
  log_.NoteRead(*number, AccessKind::kAttribute, hook);
  CalledFromClass(PyDict_GetItemWithError(dict, hook));
  if (type != &PyModule_Type) LookUpSpecial(module, "__getattr__");
}

void Observer::LoadFromType(PyTypeObject* type, PyObject* name) {
  auto* object = reinterpret_cast<PyObject*>(type);
  PyTypeObject* meta = Py_TYPE(object);
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  NoteType(object);
  LookUp(meta, getattribute, object);
  PyObject* of_meta = LookUp(meta, name, object);
  if (IsGetter(of_meta)) return LoadPartOfType(type, PyDescr_NAME(of_meta));
  if (of_meta != nullptr && Py_TYPE(of_meta)->tp_descr_set != nullptr) {
    Bind(of_meta, object);
    return FallsBack(object);
  }
  PyObject* found = LookUp(type, name, object);
  NoteProtocol(found);
  if (refused_) return;
  if (found != nullptr) {
    // A property is its own value here, and runs nothing.
    const bool runs = Py_TYPE(found)->tp_descr_get != nullptr && !PyObject_TypeCheck(found, &PyProperty_Type);
    if (runs) Bind(found, nullptr);
  } else if (of_meta != nullptr) {
    Bind(of_meta, object);
  } else if (!IsImmutable(meta)) {
    LookUpSpecial(object, "__getattr__");
  }
}

/// What `type` itself keeps of a class.
void Observer::LoadPartOfType(PyTypeObject* type, PyObject* name) {
  if (HasText(name, "__dict__")) {
    if (!IsImmutable(type)) return Refuse("class-dict", std::string(QualnameOf(type)) + ".__dict__");
    fixed_dicts_.insert(DictOf(type));
    return;
  }
  if (HasText(name, "__mro__") || HasText(name, "__bases__") || HasText(name, "__base__")) {
    if (const auto number = TypeNumber(type)) NoteBasesOf(*number);
    return;
  }
  if (IsImmutable(type)) return;
  auto* object = reinterpret_cast<PyObject*>(type);
  const auto number = TypeNumber(type);
  if (!number) return;
  if (const PartField* row = FieldShownAs(object, ViewOf(name))) return log_.NoteField(*number, row->field.data());
  PyObject* own = DictOf(type);
  const bool is_own = own != nullptr && PyDict_GetItemWithError(own, name) != nullptr;
  DropError();
  for (const char* entry : {"__doc__", "__module__", "__annotations__", "__abstractmethods__"}) {
    if (HasText(name, entry) && is_own) return log_.NoteRead(*number, AccessKind::kAttribute, name);
  }
  Refuse("foreign-attribute", std::string(QualnameOf(type)) + "." + std::string(ViewOf(name)));
}

/// Attributes of super(): each class behind the given one is asked by itself.
void Observer::LoadFromSuper(PyObject* object, PyObject* name) {
  if (log_.IsOutside(object)) return Refuse("foreign-attribute", "super() from before");
  const PythonRef after(PyObject_GetAttrString(object, "__thisclass__"));
  const PythonRef own(PyObject_GetAttrString(object, "__self_class__"));
  const PythonRef self(PyObject_GetAttrString(object, "__self__"));
  DropError();
  if (!own || !PyType_Check(own.get())) return;
  if (self) NoteType(self.get());
  NoteBases(reinterpret_cast<PyTypeObject*>(own.get()));
  PyObject* order = reinterpret_cast<PyTypeObject*>(own.get())->tp_mro;
  bool behind = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
    PyObject* one = PyTuple_GET_ITEM(order, i);
    if (behind) {
      auto* type = reinterpret_cast<PyTypeObject*>(one);
      const auto number = IsImmutable(type) ? std::nullopt : TypeNumber(type);
      if (number) log_.NoteRead(*number, AccessKind::kAttribute, name);
      PyObject* found = DictOf(type) == nullptr ? nullptr : PyDict_GetItemWithError(DictOf(type), name);
      if (found != nullptr) return Bind(found, self.get());
    }
    behind = behind || one == after.get();
  }
}

/// The dict of an object's attributes.
void Observer::AllAttributes(PyObject* object) {
  if (log_.IsArgument(object)) return RefuseArgument("argument-attribute", object, "all attributes of an argument");
  const auto number = PyModule_Check(object) ? ModuleNumber(object) : log_.Find(object);
  if (number) log_.NoteField(*number, "dict");
}

/// What a getter made in C reads, under whatever name and on whatever way it was found.
void Observer::Getter(PyObject* object, PyObject* found) {
  PyObject* const name = PyDescr_NAME(found);
  if (PyType_Check(object)) return LoadPartOfType(reinterpret_cast<PyTypeObject*>(object), name);
  const auto number = log_.Find(object);
  if (HasText(name, "__dict__")) return AllAttributes(object);
  if (HasText(name, "__class__")) return ClassOf(object);
  if (HasText(name, "__context__") && PyExceptionInstance_Check(object))
    return Refuse("foreign-attribute", "__context__, which may be what the caller handles");
  if (IsTensor(object)) {
    const bool is_of_grad = HasText(name, "requires_grad") || HasText(name, "is_leaf") || HasText(name, "grad_fn") ||
                            HasText(name, "retains_grad");
    // Which operator made it says that one did, and leads to others.
    if (number && HasText(name, "grad_fn") && !IsLeaf(object))
      return Refuse("tensor-attribute", "grad_fn of a tensor from before");
    if (number && is_of_grad) return log_.NoteField(*number, "grad");
    // Of an argument, that it requires grad is known, and not which operator made it.
    if (is_of_grad && !HasText(name, "requires_grad") && RequiresGrad(object) && log_.IsArgument(object))
      return Refuse("argument-attribute", TextOf(Py_TYPE(object), name) + " of an argument that requires grad");
    const std::string_view text = ViewOf(name);
    if (const std::string_view escape = EscapeOf(text); !escape.empty()) return Escape(object, escape, text);
    if (text == "data") aliased_ = PythonRef::Borrow(object);
    const bool is_plain = IsTensorProperty(text) || (text == "grad" && !number && !log_.IsArgument(object));
    if (!is_plain) Refuse("tensor-attribute", std::string(text));
    return;
  }
  if (!number) return OwnGetter(object, found);
  if (!IsPart(object)) {
    if (HasText(name, "__weakref__")) return Refuse("foreign-attribute", "__weakref__");
    if (EffectTable::Shared().EffectOf(found) != Effect::kWhole) LeadsOn(object, found);
    return Operand(object);
  }
  const PartField* row = FieldShownAs(object, ViewOf(name));
  if (row == nullptr) return Refuse("foreign-attribute", TextOf(Py_TYPE(object), name));
  log_.NoteField(*number, row->field.data());
}

/// Of what no reading has led to, and what it leads to: both are the run's own, or something has led there that nobody
/// saw. A function that the run has made has the globals of its module, a frame those of its code.
void Observer::OwnGetter(PyObject* object, PyObject* found) {
  PyObject* const name = PyDescr_NAME(found);
  if (log_.IsArgument(object) || IsAtom(object)) return;
  PyTypeObject* type = Py_TYPE(object);
  if (PyFrame_Check(object) || !IsOwn(object)) return Refuse("foreign-attribute", TextOf(type, name));
  // What the statement that made a function has put together; the rest it has from where it stands.
  const bool is_where_it_stands =
      HasText(name, "__globals__") || HasText(name, "__builtins__") || HasText(name, "__closure__");
  if (PyFunction_Check(object) && !is_where_it_stands) return;
  LeadsOn(object, found);
}

bool Observer::IsOwn(PyObject* value) { return fresh_.contains(value) || made_.Contain(value); }

/// What a getter gives is known, or has no identity, or was made by the run: of what else it leads to, nothing is in
/// any record. The getter itself is asked: under its name a class of the program's may have another.
void Observer::LeadsOn(PyObject* object, PyObject* found) {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  const PythonRef value(Py_TYPE(found)->tp_descr_get(found, object, type));
  DropError();
  const auto is_known = [&](PyObject* one) { return IsAtom(one) || log_.IsOutside(one) || IsOwn(one); };
  // Tuples may be taken from those that Python keeps for reuse.
  const auto is_part = [&](PyObject* one) { return is_known(one) || IsTensor(one); };
  const bool are_known = value && PyTuple_CheckExact(value.get()) && std::ranges::all_of(ItemsOf(value.get()), is_part);
  if (!value || are_known || is_known(value.get())) return;
  Refuse("foreign-attribute",
         TextOf(Py_TYPE(object), PyDescr_NAME(found)) + ", which leads to what nothing has led to");
}

void Observer::StoreAttribute(PyObject* object, PyObject* name, PyObject* value) {
  if (!PyUnicode_Check(name)) return;
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* const setattr = PyUnicode_InternFromString("__setattr__");
  static PyObject* const delattr = PyUnicode_InternFromString("__delattr__");
  NoteType(object);
  if (!IsImmutable(type)) {
    PyObject* const by_name = value == nullptr ? delattr : setattr;
    PyObject* general = LookUp(type, by_name, object);
    if (general != nullptr && PyFunction_Check(general)) return EnterFunction(general);  // A frame of its own.
    if (general != LookUpInClass(NativeBase(type), by_name)) {
      // `__setattr__ = dict.__setitem__`
      PyObject* values[] = {name, value};
      if (general != nullptr && EffectTable::IsNative(general))
        CallFromClass(general, object, {values, value == nullptr ? size_t{1} : size_t{2}, nullptr});
      else
        Refuse("call", TextOf(type, by_name) + ", which is no function");
      return;
    }
  }
  StoreGeneric(object, name, value);
}

/// As object.__setattr__ and type.__setattr__ do it, and their like that delete, whatever a class makes of it.
void Observer::StoreGeneric(PyObject* object, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(object);
  const bool is_class = PyType_Check(object);
  const auto number = PyModule_Check(object) ? ModuleNumber(object)
                      : is_class             ? TypeNumber(reinterpret_cast<PyTypeObject*>(object))
                                             : log_.Find(object);
  const setattrofunc native = NativeBase(type)->tp_setattro;
  const bool is_general = native == PyObject_GenericSetAttr || (is_class && native == PyType_Type.tp_setattro);
  // Those of threads and of proxies lie elsewhere.
  if (!is_general) return Refuse("side-effect", TextOf(type, name) + ", which is kept by native code, was changed");
  PyObject* found = LookUp(type, name, object);
  if (refused_) return;
  const bool is_data = found != nullptr && Py_TYPE(found)->tp_descr_set != nullptr;
  if (!is_data) {
    if (number) {
      Write(*number, AccessKind::kAttribute, name, value == nullptr ? "delattr" : "setattr", value);
    } else {
      IsGuardedElsewhere(object, "changed");
    }
  } else if (PyObject_TypeCheck(found, &PyMemberDescr_Type)) {
    if (number) {
      Write(*number, AccessKind::kSlot, name, value == nullptr ? "delslot" : "setslot", value);
    } else {
      IsGuardedElsewhere(object, "changed");
    }
  } else if (PyObject_TypeCheck(found, &PyProperty_Type)) {
    if (const auto property = log_.Find(found)) log_.NoteField(*property, value == nullptr ? "delete" : "set");
    const PythonRef set(PyObject_GetAttrString(found, value == nullptr ? "fdel" : "fset"));
    DropError();
    PyObject* values[] = {object, value};
    const bool is_bound = set && PyInstanceMethod_Check(set.get());  // pybind11's: it changes the object alone.
    if (is_bound && number) Refuse("side-effect", TextOf(type, name) + ", which is kept by native code, was changed");
    if (set && set.get() != Py_None && !is_bound)
      Call(set.get(), {values, value == nullptr ? size_t{1} : size_t{2}, nullptr});
  } else if (!PyObject_TypeCheck(found, &PyGetSetDescr_Type)) {
    LookUpSpecial(found, value == nullptr ? "__delete__" : "__set__");
  } else if (const auto escape = IsTensor(object) ? EscapeOfSetting(ViewOf(name)) : std::string_view();
             !escape.empty()) {
    Escape(object, escape, ViewOf(name));
  } else if (number || log_.IsArgument(object) || (value != nullptr && log_.IsOutside(value))) {
    // Attributes in a dict that others have too.
    Refuse("side-effect", TextOf(type, name) + " was changed");
  } else if (value != nullptr) {
    Deep(value);  // Which a setter made in C may copy.
  }
}

}  // namespace ingot::client
