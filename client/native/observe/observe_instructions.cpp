// SPDX-License-Identifier: Apache-2.0
// How the observer looks at instructions: what each does with its operands.

#include <string>
#include <vector>

#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/observe/observer.h"
#include "client/native/places/containers.h"

namespace ingot::client {
namespace {

/// What `%` puts words into.
bool IsText(PyObject* value) { return PyUnicode_Check(value) || PyBytes_Check(value) || PyByteArray_Check(value); }

bool IsSequence(PyObject* value) {
  return PyList_Check(value) || PyTuple_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value);
}

}  // namespace

/// Native code gets what Python code gives back.
void Observer::Give(PyObject* value, ResultUse taking) {
  const auto term = sizes_.lost() ? std::nullopt : sizes_.Find(value);
  if (term && taking == ResultUse::kLength) {
    given_length_ = term;
  } else if (term && taking == ResultUse::kTruth) {
    using Relation = SizeTerms::Relation;
    const Relation relation = sizes_.ValueOf(*term) != 0 ? Relation::NotEqual : Relation::Equal;
    sizes_.Guard(relation, *term, sizes_.Number(0), Where());
  } else {
    Deep(value);
  }
}

/// What the instruction makes of what Python code gives it.
ResultUse Observer::ResultUseOf(const Instruction& in) {
  switch (in.kind) {
    case InstrKind::kSubscript:
    case InstrKind::kStoreSubscript:
    case InstrKind::kDeleteSubscript:
      // `__index__` and `__hash__` of what is looked for.
      return HoldsObjects(in.b) ? ResultUse::kContent : ResultUse::kNo;
    // `[0] * o` asks for an index.
    case InstrKind::kBinary: return IsSequence(in.a) != IsSequence(in.b) ? ResultUse::kContent : ResultUse::kNo;
    // A generator's values go to Python code; `filter` and `groupby` look at what they are given.
    case InstrKind::kNext: return PyGen_Check(in.a) ? ResultUse::kNo : ResultUse::kContent;
    case InstrKind::kTruth: return ResultUse::kTruth;
    case InstrKind::kContains:
    case InstrKind::kCompare:
    case InstrKind::kLength:
    case InstrKind::kTakeAll:
    case InstrKind::kHash:
    case InstrKind::kFormat:
    case InstrKind::kExit: return ResultUse::kContent;
    default: return ResultUse::kNo;
  }
}

int Observer::Observe(const Instruction& in) {
  if (trace_.count() > instructions_max_) {
    Refuse("instructions", "more than " + std::to_string(instructions_max_) + " instructions");
    return kNone;
  }
  log_.set_line({in.code, in.position});
  frame_globals_ = in.globals;
  frame_builtins_ = in.builtins;
  frame_function_ = in.function;
  result_use_ = ResultUseOf(in);
  switch (in.kind) {
    case InstrKind::kHarmless: break;
    case InstrKind::kLoadAttribute: LoadAttribute(in.a, in.name); break;
    case InstrKind::kStoreAttribute: StoreAttribute(in.a, in.name, in.b); break;
    case InstrKind::kDeleteAttribute: StoreAttribute(in.a, in.name, nullptr); break;
    case InstrKind::kLoadGlobal: LoadGlobal(in); break;
    case InstrKind::kStoreGlobal:
    case InstrKind::kDeleteGlobal: StoreGlobal(in); break;
    case InstrKind::kLoadCell: LoadCell(in.a); break;
    case InstrKind::kStoreCell:
    case InstrKind::kDeleteCell: StoreCell(in.a, in.b); break;
    case InstrKind::kSubscript: Subscript(in.a, in.b); break;
    case InstrKind::kStoreSubscript: StoreSubscript(in.a, in.b, in.c); break;
    case InstrKind::kDeleteSubscript: StoreSubscript(in.a, in.b, nullptr); break;
    case InstrKind::kContains: Contains(in.a, in.b); break;
    case InstrKind::kCompare: Compare(in.a, in.b); break;
    case InstrKind::kIdentity: Identity(in.a, in.b); break;
    case InstrKind::kBinary: Combine(in.a, in.b); break;
    case InstrKind::kBinaryInPlace: ChangeInPlace(in.a, in.name, in.b); break;
    case InstrKind::kUnary: Operand(in.a); break;
    case InstrKind::kTruth: Truth(in.a); break;
    case InstrKind::kLength: Length(in.a); break;
    case InstrKind::kIterate: Iterate(in.a); break;
    case InstrKind::kTakeAll: TakeAll(in.a); break;
    case InstrKind::kNext: Next(in.a); break;
    case InstrKind::kReturnOrYield: Give(in.a, static_cast<ResultUse>(in.operation)); break;
    case InstrKind::kHash: Display(in); break;
    case InstrKind::kFormat: Text(in.a); break;
    case InstrKind::kEnter: EnterContext(in.a); break;
    case InstrKind::kExit: break;  // Its code was looked up where the context was entered.
    case InstrKind::kRaise: Raise(in.a); break;
    case InstrKind::kCatch: Catch(in.a, in.b); break;
    case InstrKind::kMatchShape: NoteShape(in.a); break;
    case InstrKind::kMatchKeys: MatchKeys(in.a, in.b); break;
    case InstrKind::kMatchClass: MatchClass(in.a, in.b, in.c); break;
    case InstrKind::kImport: Import(in.name); return kImported;
    case InstrKind::kBuildClass: LoadBuildClass(); break;
    case InstrKind::kImportFrom: LoadAttribute(in.a, in.name); break;
    case InstrKind::kUnpackBoundMethod: TakeApart(in.a); break;
    case InstrKind::kCall: return Call(in.a, {in.args, in.arg_count, in.keyword_names});
    case InstrKind::kCallExpanded: return CallExpanded(in.a, in.b, in.c);
    case InstrKind::kMakeFunction: return kMade;
    case InstrKind::kUnsupported:
      Refuse("instruction", std::string(in.opcode) + "async or interactive code, or except*");
      break;
    case InstrKind::kUnknown: Refuse("instruction", "an instruction that this version of Ingot does not know"); break;
  }
  return kNone;
}

void Observer::Compare(PyObject* a, PyObject* b) {
  is_unordered_ = true;
  DeepCompared(a);
  DeepCompared(b);
  is_unordered_ = false;
  if (IsComparedByAddress(a) && IsComparedByAddress(b)) Identity(a, b);
}

void Observer::Combine(PyObject* a, PyObject* b) {
  Combined(a, b);
  Combined(b, a);
  if (IsText(a)) Text(b);
}

void Observer::TakeAll(PyObject* value) {
  Iterate(value);
  Keys(value);
}

void Observer::EnterContext(PyObject* context) {
  LookUpSpecial(context, "__enter__");
  LookUpSpecial(context, "__exit__");
}

/// `raise exception`; null for a `raise` alone.
void Observer::Raise(PyObject* exception) {
  if (exception != nullptr) Operand(exception);
  // What the caller was handling when it called, no other call would find.
  if (exception == nullptr && PythonRef(PyErr_GetHandledException()).get() == handled_before_.get())
    Refuse("exception", "`raise` of what the caller handles");
  if (exception != nullptr && PyType_Check(exception) && !IsImmutable(reinterpret_cast<PyTypeObject*>(exception)))
    LookUpConstruction(reinterpret_cast<PyTypeObject*>(exception));
}

void Observer::Catch(PyObject* exception, PyObject* classes) {
  ClassOf(PyType_Check(exception) ? exception : reinterpret_cast<PyObject*>(Py_TYPE(exception)));
  NoteType(exception);
  if (PyTuple_Check(classes)) Deep(classes);
}

void Observer::MatchClass(PyObject* subject, PyObject* type, PyObject* names) {
  static PyObject* const match_args = PyUnicode_InternFromString("__match_args__");
  LoadAttribute(type, match_args);
  PyObject* positional =
      PyType_Check(type) ? LookUpInClass(reinterpret_cast<PyTypeObject*>(type), match_args) : nullptr;
  if (positional != nullptr) Deep(positional);
  for (Py_ssize_t i = 0; positional != nullptr && PyTuple_Check(positional) && i < PyTuple_GET_SIZE(positional); ++i) {
    LoadAttribute(subject, PyTuple_GET_ITEM(positional, i));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) LoadAttribute(subject, PyTuple_GET_ITEM(names, i));
  Deep(subject);
  ClassOf(subject);
}

/// What a class statement finds among the builtins.
void Observer::LoadBuildClass() {
  static PyObject* const build = PyUnicode_InternFromString("__build_class__");
  LoadBuiltin(build);
}

/// `callable(*positional, **keywords)`; `keywords` may be null.
int Observer::CallExpanded(PyObject* callable, PyObject* positional, PyObject* keywords) {
  const bool is_list = (PyTuple_Check(positional) || PyList_Check(positional)) && IteratesNatively(positional);
  is_list ? Iterate(positional) : Deep(positional);  // What a list has is handed on; who gets it may look at it.
  if (!is_list) {
    // What an iterator gives, the frame of a Python function shows.
    const bool is_python = PyFunction_Check(callable) || PyMethod_Check(callable) ||
                           (!PyType_Check(callable) && !EffectTable::IsNative(callable));
    if (is_python) return Call(callable, {nullptr, 0, nullptr});
    Refuse("call", std::string("arguments from a ") + Py_TYPE(positional)->tp_name);
    return kNone;
  }
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(positional); ++i) {
    values.push_back(PySequence_Fast_GET_ITEM(positional, i));
  }
  PythonRef names;
  if (keywords != nullptr && PyDict_Check(keywords)) {
    Iterate(keywords);
    const PythonRef keys = ElementsOf(keywords);
    names = PythonRef(keys ? PyList_AsTuple(keys.get()) : nullptr);
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i) {
      values.push_back(PyDict_GetItemWithError(keywords, PyTuple_GET_ITEM(names.get(), i)));
    }
  }
  return Call(callable, {values.data(), values.size(), names.get()});
}

}  // namespace ingot::client
