// SPDX-License-Identifier: Apache-2.0
// How the observer looks at names: globals, cells, modules, and what has a name of its own.

#include "client/native/observe/observer.h"

#include <algorithm>
#include <array>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/effects/escapes.h"
#include "client/native/places/containers.h"
#include "client/native/places/field_content.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {

/// What sys.modules holds under a name that is imported, where the module is there already. An import that is
/// still to come counts from the next recording on, if it finds one.
void Observer::Import(PyObject* name) {
  static PyObject* const sys = PyUnicode_InternFromString("sys");
  static PyObject* const modules = PyUnicode_InternFromString("modules");
  static PyObject* const import = PyUnicode_InternFromString("__import__");
  LoadBuiltin(import);
  PyObject* module = ModuleNamed(sys);
  PyObject* table = PyImport_GetModuleDict();
  const auto number = module == nullptr ? std::nullopt : ModuleNumber(module);
  if (!number || name == nullptr || !PyUnicode_CheckExact(name)) return DropError();
  log_.NoteRead(*number, AccessKind::kAttribute, modules);
  if (PyDict_GetItemWithError(table, name) == nullptr) {
    imports_to_come_.push_back(PythonRef::Borrow(name));
  } else if (const auto dict = log_.Find(table)) {
    log_.NoteImport(*dict, name);
  }
  DropError();
}

std::optional<ObservedLog::Number> Observer::TypeNumber(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (const auto number = log_.Find(object)) return number;
  if (fresh_.contains(object)) return std::nullopt;
  const auto path = CanonicalPath(object, ModuleOf(type), QualnameOf(type));
  if (!path || path->ends_with(':')) return std::nullopt;
  return log_.AddRoot(object, *path);
}

std::optional<ObservedLog::Number> Observer::ModuleNumber(PyObject* module) {
  if (const auto number = log_.Find(module)) return number;
  PyObject* dict = PyModule_GetDict(module);
  PyObject* name = dict == nullptr ? nullptr : NameOfGlobals(dict);
  if (ModuleNamed(name) == module) return log_.AddRoot(module, std::string(ViewOf(name)) + ":");
  Refuse("unexplained-module", std::string(ViewOf(name)) + " is not what sys.modules holds under its name");
  return std::nullopt;
}

std::optional<ObservedLog::Number> Observer::ModuleOfGlobals(PyObject* globals) {
  if (const auto it = globals_.find(globals); it != globals_.end()) return it->second;
  PyObject* module = ModuleNamed(NameOfGlobals(globals));
  std::optional<Number> number;
  if (module != nullptr && OwnDict(module) == globals) number = ModuleNumber(module);
  globals_.emplace(globals, number);
  held_.push_back(PythonRef::Borrow(globals));
  return number;
}

void Observer::LoadGlobal(const Instruction& in) {
  if (IsCached(in.globals, in.name)) return;
  // A name in a class's body, whose variables are the run's own.
  if (in.a != nullptr && PyDict_Check(in.a) && in.a != in.globals && PyDict_GetItemWithError(in.a, in.name) != nullptr)
    return;
  const auto module = ModuleOfGlobals(in.globals);
  const bool is_there = PyDict_GetItemWithError(in.globals, in.name) != nullptr;
  if (module) {
    log_.NoteRead(*module, AccessKind::kAttribute, in.name);
  } else if (const auto function = log_.Find(reinterpret_cast<PyObject*>(in.function))) {
    // Code with variables of its own, made by exec.
    log_.NoteField(*function, "globals");
    if (const auto dict = log_.Find(in.globals)) log_.NoteRead(*dict, AccessKind::kItem, in.name);
  } else if (is_there) {
    return Refuse("unexplained-global", std::string(ViewOf(in.name)) + " of code that belongs to no module");
  }
  if (!is_there) LoadBuiltin(in.name);
  if (module && loaded_.insert({in.globals, in.name}).second) held_.push_back(PythonRef::Borrow(in.name));
}

/// What the code that runs has among its builtins: those of a module, or of a dict of its own to which its function
/// has led.
void Observer::LoadBuiltin(PyObject* name) {
  if (frame_builtins_ == nullptr || refused_) return;
  if (const auto module = ModuleOfGlobals(frame_builtins_)) return log_.NoteRead(*module, AccessKind::kAttribute, name);
  if (const auto dict = log_.Find(frame_builtins_)) return log_.NoteRead(*dict, AccessKind::kItem, name);
  Refuse("unexplained-global", std::string(ViewOf(name)) + " of builtins that belong to no module");
}

void Observer::StoreGlobal(const Instruction& in) {
  const auto module = ModuleOfGlobals(in.globals);
  if (!module)
    return Refuse("side-effect", std::string(ViewOf(in.name)) + " of code that belongs to no module was changed");
  Write(*module, AccessKind::kAttribute, in.name, in.b == nullptr ? "delattr" : "setattr", in.b);
}

void Observer::LoadCell(PyObject* cell) {
  const auto it = cells_.find(cell);
  if (it != cells_.end()) log_.NoteRead(it->second.function, AccessKind::kCell, it->second.name);
}

void Observer::StoreCell(PyObject* cell, PyObject* value) {
  const auto it = cells_.find(cell);
  if (it == cells_.end()) return;
  if (value == nullptr) return Refuse("side-effect", "a variable of an enclosing function was deleted");
  Write(it->second.function, AccessKind::kCell, it->second.name, "setcell", value);
}

}  // namespace ingot::client
