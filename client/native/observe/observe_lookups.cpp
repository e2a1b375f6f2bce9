// SPDX-License-Identifier: Apache-2.0
// How the observer reads what classes have under a name.

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/observe/observer.h"

namespace ingot::client {

/// Which class a root is of, nothing else says: of other objects, the place that holds them does.
void Observer::NoteTypeOfRoot(PyObject* instance) {
  if (instance == nullptr || PyType_Check(instance) || PyModule_Check(instance)) return;
  const auto number = log_.Find(instance);
  if (!number || !log_.IsNamed(*number)) return;
  TypeNumber(Py_TYPE(instance));  // The class under its own name: what becomes of that is watched there.
  log_.NoteField(*number, "type");
}

/// What the classes of `type` have under a name, borrowed. `instance` may lead to a class that no
/// name leads to.
PyObject* Observer::LookUp(PyTypeObject* type, PyObject* name, PyObject* instance) {
  PyObject* found = LookUpInClass(type, name);
  if (IsImmutable(type)) return found;
  NoteTypeOfRoot(instance);
  // The look-up above has given the class a version, if it can have one.
  const bool has_version = (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0;
  const auto known = looked_up_.find({type, name});
  if (known != looked_up_.end() && has_version && known->second == type->tp_version_tag) return found;
  if (fresh_.contains(reinterpret_cast<PyObject*>(type))) {
    LookUpInBases(type, name);
    return found;
  }
  auto number = TypeNumber(type);
  if (!number && instance != nullptr) {
    if (const auto holder = log_.Find(instance)) {
      log_.NoteField(*holder, "type");
      number = log_.Find(reinterpret_cast<PyObject*>(type));
    }
  }
  if (number && IsWrittenInClasses(type, name)) {
    LookUpInBases(type, name);
  } else if (number) {
    log_.NoteRead(*number, AccessKind::kClass, name);
    if (has_version && looked_up_.insert_or_assign({type, name}, type->tp_version_tag).second)
      held_.push_back(PythonRef::Borrow(name));
  } else if (classes_in_making_ == 0) {  // A metaclass looks at a class before it is there.
    LookUpInBases(type, name);
  }
  return found;
}

PyObject* Observer::LookUp(PyTypeObject* type, const char* name, PyObject* instance) {
  const PythonRef text(PyUnicode_InternFromString(name));
  return LookUp(type, text.get(), instance);
}

/// Whether the run has written what one of the classes has under a name.
bool Observer::IsWrittenInClasses(PyTypeObject* type, PyObject* name) const {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    if (log_.IsWritten(PyTuple_GET_ITEM(type->tp_mro, i), AccessKind::kAttribute, name)) return true;
  }
  return false;
}

/// Class by class: of one that the run has made, or that no name leads to, of an object that the run has made
/// (autograd's contexts), whose bases have names; and of one that it has written to.
void Observer::LookUpInBases(PyTypeObject* type, PyObject* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (IsImmutable(base)) continue;
    const bool is_made = fresh_.contains(reinterpret_cast<PyObject*>(base));
    const auto number = is_made ? std::nullopt : TypeNumber(base);
    if (number) {
      NoteBasesOf(*number);
      log_.NoteRead(*number, AccessKind::kAttribute, name);
    }
    PyObject* const own = DictOf(base);
    const bool is_own = own == nullptr || PyDict_GetItemWithError(own, name) != nullptr;
    if (!is_made && !number && (is_own || i > 0))
      return Refuse("unexplained-class", std::string(QualnameOf(base)) + ", which no name leads to");
    if (is_own) return;
  }
  DropError();
}

void Observer::LookUpSpecial(PyObject* instance, const char* name) {
  PyObject* found = LookUp(Py_TYPE(instance), name, instance);
  NoteType(instance);
  if (found == nullptr) return;
  if (EffectTable::IsNative(found) && EffectTable::Shared().EffectOf(found) == Effect::kRefused) {
    return Refuse("call", EffectTable::NameOf(found));
  }
  const PythonRef text(PyUnicode_InternFromString(name));
  if (!IsImmutable(Py_TYPE(instance))) ReadsUnderName(Py_TYPE(instance), text.get(), found);
  Bind(found, nullptr);
  CalledFromClass(found);
  if (PyFunction_Check(found)) EnterFunction(found);
}

}  // namespace ingot::client
