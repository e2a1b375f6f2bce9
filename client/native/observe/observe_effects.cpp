// SPDX-License-Identifier: Apache-2.0
// What a call of a function made in C reads and changes, by the effect that the table of callables names.

#include <string>
#include <string_view>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/effects/escapes.h"
#include "client/native/observe/observer.h"
#include "client/native/places/containers.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

/// Whether a field of a format string ("{0.name}"), or one in what a field says of its form, leads to an attribute,
/// which native code reads. Python's own parser says what is a field; of what it does not take, this says yes.
bool NamesAttributes(PyObject* format) {
  PyObject* const parse = LoadedAttribute("_string", "formatter_parser");
  PyObject* const split = LoadedAttribute("_string", "formatter_field_name_split");
  const PythonRef fields(parse == nullptr ? nullptr : PyObject_CallOneArg(parse, format));
  while (fields && split != nullptr) {
    const PythonRef field(PyIter_Next(fields.get()));
    if (!field && PyErr_Occurred() == nullptr) return false;
    if (!field) break;
    PyObject* const name = PyTuple_GET_ITEM(field.get(), 1);
    PyObject* const form = PyTuple_GET_ITEM(field.get(), 2);
    if (name == Py_None) continue;  // Text behind the last field.
    const PythonRef parts(PyObject_CallOneArg(split, name));
    PythonRef step;
    const PythonRef rest(parts ? PyObject_GetIter(PyTuple_GET_ITEM(parts.get(), 1)) : nullptr);
    while (rest && (step = PythonRef(PyIter_Next(rest.get())))) {
      if (PyTuple_GET_ITEM(step.get(), 0) == Py_True) return true;
    }
    if (!rest || PyErr_Occurred() != nullptr) break;
    if (PyUnicode_GET_LENGTH(form) > 0 && NamesAttributes(form)) return true;
  }
  DropError();
  return true;
}

}  // namespace

/// One call of a function made in C.
struct Observer::NativeCall {
  PyObject* callable;
  const Arguments& arguments;
  PyObject* const* values;
  size_t count;  ///< without those of keywords
  Effect effect;

  /// What a function is bound to, else its first argument; borrowed, or null.
  PyObject* self() const {
    return PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : count > 0 ? values[0] : nullptr;
  }
  /// The class that a function is bound to, which is no argument then; borrowed, or null.
  PyObject* bound_class() const {
    PyObject* const owner = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
    return owner != nullptr && PyType_Check(owner) ? owner : nullptr;
  }
};

int Observer::CallByEffect(PyObject* callable, const Arguments& arguments) {
  const Effect effect = EffectTable::Shared().EffectOf(callable);
  const NativeCall call{callable, arguments, arguments.values, arguments.positional(), effect};
  result_use_ = ResultUseOf(effect, arguments);
  switch (effect) {
    case Effect::kRefused: CallRefused(callable); break;
    // Asks which object it is, or of which class.
    case Effect::kIdentity: CallIdentity(call); break;
    case Effect::kClass:
    case Effect::kNothing: CallClass(call); break;
    case Effect::kRegistry: CallRegistry(call); break;
    case Effect::kTypeHierarchy: CallBases(call); break;
    case Effect::kBind: CallBind(call); break;
    // Computes.
    case Effect::kPure:
    case Effect::kOperator: CallOperator(call); break;
    case Effect::kArray: CallArray(call); break;
    case Effect::kMakeTensor: CallMakeTensor(call); break;
    case Effect::kEscape: CallEscape(call); break;
    case Effect::kToList: CallToList(call); break;
    case Effect::kApply: CallApply(call); break;
    // Reads or changes attributes.
    case Effect::kGetAttribute:
    case Effect::kSetAttribute:
    case Effect::kDeleteAttribute: CallAttribute(call); break;
    case Effect::kVars: CallOwnDict(call); break;
    case Effect::kGlobals: CallGlobals(); break;
    // Reads or changes what a container holds.
    case Effect::kGetItem:
    case Effect::kSetItem:
    case Effect::kDeleteItem:
    case Effect::kContains:
    case Effect::kGetEntry: CallItem(call); break;
    case Effect::kContent: CallContent(call); break;
    case Effect::kFill: CallFill(call); break;
    case Effect::kAdd:
    case Effect::kChange: Change(callable, arguments, effect == Effect::kChange); break;
    case Effect::kWhole: CallWhole(call); break;
    case Effect::kIterate: DeepAll(arguments); break;
    case Effect::kNext: CallNext(call); break;
    // Asks one thing of an object, or puts it into words.
    case Effect::kLength:
    case Effect::kTruth:
    case Effect::kAddress:
    case Effect::kReduce: CallQuestion(call); break;
    case Effect::kHash: CallHash(call); break;
    case Effect::kText: CallText(call); break;
    case Effect::kPrint: Print(arguments); break;
    // Reads or changes settings.
    case Effect::kState: return kSetting;
    case Effect::kReplayedQuery: Answer(callable, arguments); return kSetting;
    case Effect::kContext: CallContext(call); return kSetting;
    case Effect::kSetContext: CallSetContext(call); break;
    case Effect::kAcquire:
    case Effect::kRelease: CallLock(call); break;
    case Effect::kWarn: CallWarn(call); break;
    case Effect::kMode: CallMode(call); break;
    // Runs other code.
    case Effect::kImport: CallImport(call); return kImported;
    case Effect::kMakeClass: CallMakeClass(arguments); return kMadeClass;
    case Effect::kAllocate: CallAllocate(call); break;
    case Effect::kConstruct: return CallConstruct(call);
    case Effect::kCallsSelf: return CallSelf(call);
  }
  return kNone;
}

void Observer::CallRefused(PyObject* callable) {
  const std::string name = EffectTable::NameOf(callable);
  Refuse(name.find("autocast") == std::string::npos ? "call" : "autocast", name);
}

// -- which object it is, or of which class
// -----------------------------------------------------------------------------

void Observer::CallIdentity(const NativeCall& call) {
  for (size_t i = 0; i < call.count; ++i) SpecializeOn(call.values[i]);
  if (call.count == 2) Identity(call.values[0], call.values[1]);
}

void Observer::CallClass(const NativeCall& call) {
  if (call.effect == Effect::kClass && call.count > 0) ClassOf(call.values[0]);
  for (size_t i = 0; i < call.count; ++i) {
    PyObject* const value = call.values[i];
    if (PyType_Check(value)) NoteSpecial(Py_TYPE(value), value);
    // The classes that `isinstance` is given.
    if (PyTuple_Check(value) || ModuleOf(Py_TYPE(value)) == "types") Deep(value);
  }
}

void Observer::CallRegistry(const NativeCall& call) {
  if (call.count == 0 || !PyType_Check(call.values[0])) return;
  const auto number = TypeNumber(reinterpret_cast<PyTypeObject*>(call.values[0]));
  if (number) log_.NoteField(*number, "registry");
  if (number) log_.NoteField(*number, "special");
}

void Observer::CallBases(const NativeCall& call) {
  if (PyObject* const owner = call.bound_class()) ClassOf(owner);
  for (size_t i = 0; i < call.count; ++i) ClassOf(call.values[i]);
}

void Observer::CallBind(const NativeCall& call) {
  PyObject* const bound = call.count > 1 && call.values[1] != Py_None ? call.values[1] : nullptr;
  if (call.count > 0) Bind(call.values[0], bound);
  if (call.count > 1) ClassOf(call.values[1]);
}

// -- computing
// -----------------------------------------------------------------------------------------

void Observer::CallOperator(const NativeCall& call) {
  may_find_ = call.effect == Effect::kPure;
  DeepAll(call.arguments);
  may_find_ = false;
  Getters(call.arguments);
  if (call.count == 0 || !IsTensor(call.values[0])) return;
  PyObject* const tensor = call.values[0];
  const std::string_view name = EffectTable::ShortNameOf(call.callable);
  if (name == "stride") NoteStrides(tensor);
  if (name == "requires_grad_") {
    if (const auto number = log_.Find(tensor)) log_.NoteField(*number, "grad");
    if (log_.IsArgument(tensor)) Refuse("side-effect", "whether an argument requires a gradient was set");
  }
}

void Observer::CallArray(const NativeCall& call) {
  DeepAll(call.arguments);
  if (call.arguments.NameOutput())
    Refuse("side-effect", EffectTable::NameOf(call.callable) + " with an array to write to");
}

void Observer::CallMakeTensor(const NativeCall& call) {
  const auto& [callable, arguments, values, count, effect] = call;
  if (count > 0 && PyType_Check(values[0])) CheckMakes(reinterpret_cast<PyTypeObject*>(values[0]));
  // Of a tensor's method, or of the class, data come second.
  const size_t at = count > 0 && (IsTensor(values[0]) || PyType_Check(values[0])) && count > 1 ? 1 : 0;
  PyObject* data = count > at ? values[at] : nullptr;
  for (size_t i = count; data == nullptr && i < arguments.count; ++i) {
    const std::string_view name = ViewOf(PyTuple_GET_ITEM(arguments.keyword_names, static_cast<Py_ssize_t>(i - count)));
    if (name == "data" || name == "obj") data = values[i];
  }
  if (SharesMemory(data)) Escape(nullptr, "escape-memory", "tensor of an array or buffer");
  if (HoldsTensor(data)) Escape(nullptr, "escape-item", "tensor of a list of tensors");
  DeepAll(arguments);
}

void Observer::CallEscape(const NativeCall& call) {
  const std::string name = EffectTable::NameOf(call.callable);
  const std::string_view method = std::string_view(name).substr(name.rfind('.') + 1);
  DeepAll(call.arguments);
  Escape(call.count > 0 ? call.values[0] : nullptr, EscapeOf(method), method);
}

void Observer::CallToList(const NativeCall& call) {
  DeepAll(call.arguments);
  if (call.count > 0 && IsTensor(call.values[0]) && !is_list_followed_) hooks_.list(call.values[0]);
}

void Observer::CallApply(const NativeCall& call) {
  DeepAll(call.arguments);
  PyObject* const owner = call.bound_class();
  if (owner == nullptr) return;
  for (const char* name : {"_backward_cls", "forward", "setup_context"}) {
    const PythonRef text(PyUnicode_InternFromString(name));
    LoadFromType(reinterpret_cast<PyTypeObject*>(owner), text.get());
  }
}

// -- attributes
// ------------------------------------------------------------------------------------------

void Observer::CallAttribute(const NativeCall& call) {
  if (call.count < 2) return;
  PyObject *const object = call.values[0], *const name = call.values[1];
  if (call.effect == Effect::kGetAttribute) {
    if (!PyUnicode_Check(name)) return;
    if (PyCFunction_Check(call.callable) || PyType_Check(object) || PyModule_Check(object)) {
      LoadAttribute(object, name);
    } else {
      LoadGeneric(object, name, false);  // object.__getattribute__, from a class's own.
    }
    return;
  }
  PyObject* const value = call.effect == Effect::kSetAttribute && call.count > 2 ? call.values[2] : nullptr;
  // object.__setattr__ itself is not sent to the class's own.
  PyCFunction_Check(call.callable) ? StoreAttribute(object, name, value) : StoreGeneric(object, name, value);
}

void Observer::CallOwnDict(const NativeCall& call) {
  if (call.count == 0) return;
  if (PyType_Check(call.values[0])) Refuse("class-dict", "vars of a class");
  static PyObject* const dict = PyUnicode_InternFromString("__dict__");
  LoadAttribute(call.values[0], dict);  // Where the class has none of these, it is asked as for any other name.
}

void Observer::CallGlobals() {
  const auto module = frame_globals_ == nullptr ? std::nullopt : ModuleOfGlobals(frame_globals_);
  if (module) log_.NoteField(*module, "dict");
  if (!module) Refuse("call", "globals of code that belongs to no module");
}

// -- containers
// ------------------------------------------------------------------------------------------

void Observer::CallItem(const NativeCall& call) {
  if (call.count < 2) return;
  PyObject *const container = call.values[0], *const key = call.values[1];
  if (call.effect == Effect::kGetItem) return Subscript(container, key);
  if (call.effect == Effect::kContains || call.effect == Effect::kGetEntry) return Contains(container, key);
  PyObject* const value = call.effect == Effect::kSetItem && call.count > 2 ? call.values[2] : nullptr;
  if (PyCFunction_Check(call.callable)) {  // operator.setitem
    StoreSubscript(container, key, value);
  } else {  // dict.__setitem__ itself is not sent to the class's own.
    StoreItem(container, key, value, EffectTable::NameOf(call.callable));
  }
}

void Observer::CallContent(const NativeCall& call) {
  const auto number = call.count > 0 ? log_.Find(call.values[0]) : std::nullopt;
  if (number) log_.NoteField(*number, "content");
  DeepAll(call.arguments, 1);
}

void Observer::CallFill(const NativeCall& call) {
  DeepAll(call.arguments, 1);
  if (call.count == 0) return;
  PyObject* const filled = call.values[0];
  if (call.count > 1 && PyDict_Check(filled)) Keys(call.values[1]);
  // A counter is filled by its own functions, where its class has such.
  if (call.count > 1 && PyDict_Check(filled) && !IsImmutable(Py_TYPE(filled))) {
    for (const char* name : {"get", "__setitem__"}) LookUp(Py_TYPE(filled), name, filled);
  }
  if (log_.IsArgument(filled) && IsGuardedElsewhere(filled, "filled")) return;
  if (log_.IsOutside(filled))
    Refuse("side-effect",
           EffectTable::NameOf(call.callable) + " changes a " + Py_TYPE(filled)->tp_name + " that existed before");
}

void Observer::CallWhole(const NativeCall& call) {
  if (call.count > 0) Iterate(call.values[0]);
  DeepAll(call.arguments, 1);
}

void Observer::CallNext(const NativeCall& call) {
  if (call.count > 0) Next(call.values[0]);
  // It gets a traceback.
  for (size_t i = 1; i < call.arguments.count; ++i) {
    if (PyExceptionInstance_Check(call.values[i]) && log_.IsOutside(call.values[i]))
      Refuse("side-effect", "an exception from before is thrown");
  }
}

// -- questions and words
// ---------------------------------------------------------------------------------

void Observer::CallQuestion(const NativeCall& call) {
  if (call.count == 0) return;
  PyObject* const asked = call.values[0];
  switch (call.effect) {
    case Effect::kLength: PyCFunction_Check(call.callable) ? Length(asked) : OwnLength(asked); break;
    case Effect::kTruth: Truth(asked); break;
    case Effect::kAddress: Address(asked); break;
    default: State(asked); break;
  }
}

void Observer::CallHash(const NativeCall& call) {
  if (call.count > 0) Hash(call.values[0]);
  DeepAll(call.arguments);
}

void Observer::CallText(const NativeCall& call) {
  if (call.count > 0 && PyUnicode_Check(call.values[0]) && NamesAttributes(call.values[0]) &&
      EffectTable::NameOf(call.callable).starts_with("str.format"))
    Refuse("call", EffectTable::NameOf(call.callable) + " that reads attributes");
  for (size_t i = 0; i < call.arguments.count; ++i) Text(call.values[i]);
}

// -- settings
// ------------------------------------------------------------------------------------------

void Observer::CallContext(const NativeCall& call) {
  const auto number = call.count > 0 ? log_.Find(call.values[0]) : std::nullopt;
  if (number) NoteContext(*number);
}

void Observer::CallSetContext(const NativeCall& call) {
  const auto number = call.count > 0 ? log_.Find(call.values[0]) : std::nullopt;
  if (!number) return;
  NoteContext(*number);
  if (call.count > 1) SpecializeOn(call.values[1]);
  static PyObject* const context = PyUnicode_InternFromString("context");
  borrowed_contexts_.emplace(*number, *LoadPlace(call.values[0], AccessKind::kField, context).content);
  if (call.count > 1 && context_values_.insert(call.values[1]).second)
    held_.push_back(PythonRef::Borrow(call.values[1]));
}

void Observer::CallLock(const NativeCall& call) {
  const bool is_taken = call.effect == Effect::kAcquire;
  if (is_taken && call.arguments.count > 1) Refuse("call", EffectTable::NameOf(call.callable) + " that may not wait");
  locks_[call.self()] += is_taken ? 1 : -1;
}

void Observer::CallWarn(const NativeCall& call) {
  DeepAll(call.arguments);
  PyObject* const warnings = LoadedModule("warnings");
  // A filter may make an error of it.
  if (const auto number = warnings ? ModuleNumber(warnings) : std::nullopt) log_.NoteField(*number, "errors");
}

void Observer::CallMode(const NativeCall& call) {
  // pybind11's classes share the names of such functions, whose first argument is pybind11's own. The results say
  // whether they were made in inference mode.
  const std::string mode = call.count > 1 ? EffectTable::NameOf(call.values[1]) : "";
  if (mode != "torch._C._InferenceMode") Refuse("call", EffectTable::NameOf(call.callable) + " of " + mode);
}

// -- other code
// ------------------------------------------------------------------------------------------

void Observer::CallImport(const NativeCall& call) {
  if (call.count > 0) Import(call.values[0]);
}

/// What a class statement asks of the bases and their metaclasses.
void Observer::CallMakeClass(const Arguments& arguments) {
  for (size_t i = 2; i < arguments.count && !refused_; ++i) {
    PyObject* const value = arguments.values[i];
    if (!PyType_Check(value)) continue;
    static PyObject* const hook = PyUnicode_InternFromString("__init_subclass__");
    auto* base = reinterpret_cast<PyTypeObject*>(value);
    NoteType(value);
    if (!IsImmutable(base) && !PyType_IsSubtype(base, &PyType_Type)) LoadFromType(base, hook);
    PyTypeObject* meta = PyType_IsSubtype(base, &PyType_Type) ? base : Py_TYPE(value);
    if (IsImmutable(meta)) continue;
    LookUpConstruction(meta);
    for (const char* name : {"__prepare__", "mro"}) LookUp(meta, name, reinterpret_cast<PyObject*>(meta));
  }
  ++classes_in_making_;
}

void Observer::CallAllocate(const NativeCall& call) {
  if (call.count == 0 || !PyType_Check(call.values[0])) return;
  auto* const type = reinterpret_cast<PyTypeObject*>(call.values[0]);
  NoteAbstract(type);
  NoteFinalizer(type);
}

int Observer::CallConstruct(const NativeCall& call) {
  consumer_ = nullptr;
  if (call.arguments.count == 0 || !PyType_Check(call.values[0])) return kNone;
  return Construct(reinterpret_cast<PyTypeObject*>(call.values[0]),
                   {call.values + 1, call.arguments.count - 1, call.arguments.keyword_names});
}

int Observer::CallSelf(const NativeCall& call) {
  consumer_ = nullptr;
  if (call.arguments.count == 0) return kNone;
  return Call(call.values[0], {call.values + 1, call.arguments.count - 1, call.arguments.keyword_names});
}

}  // namespace ingot::client
