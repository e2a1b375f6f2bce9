// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/dataclass_fields.h"

#include <unordered_map>

#include "client/native/cpython/drop_error.h"
#include "client/native/places/place_access.h"

namespace ingot::client {
namespace {

PythonRef FindFields(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__dataclass_fields__");
  PyObject* fields = LookUpInClass(type, name);
  if (fields == nullptr || !PyDict_CheckExact(fields) || type->tp_getattro != PyObject_GenericGetAttr) return {};
  PyObject *field, *description;
  for (Py_ssize_t at = 0; PyDict_Next(fields, &at, &field, &description);) {
    PyObject* of_class = PyUnicode_CheckExact(field) ? LookUpInClass(type, field) : fields;
    const bool is_plain = of_class == nullptr || PyObject_TypeCheck(of_class, &PyMemberDescr_Type) ||
                          Py_TYPE(of_class)->tp_descr_get == nullptr;
    if (!is_plain) return {};
  }
  return PythonRef(PySequence_Tuple(fields));
}

}  // namespace

PyObject* FieldsOf(PyTypeObject* type) {
  struct Known {
    PythonRef type;  ///< kept: another class must not get its address
    unsigned int version = 0;
    PythonRef fields;
  };
  static auto* known = new std::unordered_map<PyTypeObject*, Known>;
  Known& one = (*known)[type];
  const bool is_current = one.type && one.version == type->tp_version_tag && one.version != 0;
  if (is_current) return one.fields.get();
  if (!one.type) one.type = PythonRef::Borrow(reinterpret_cast<PyObject*>(type));
  one.fields = FindFields(type);  // Which gives the class a version, where it can have one.
  one.version = type->tp_version_tag;
  DropError();
  return one.fields.get();
}

PythonRef FieldOf(PyObject* value, PyObject* name) {
  for (const AccessKind place : {AccessKind::kSlot, AccessKind::kAttribute}) {
    if (PlaceValue seen = LoadPlace(value, place, name); seen.object) return std::move(seen.object);
  }
  PyObject* of_class = LookUpInClass(Py_TYPE(value), name);
  const bool is_default = of_class != nullptr && !PyObject_TypeCheck(of_class, &PyMemberDescr_Type);
  return PythonRef::Borrow(is_default ? of_class : nullptr);
}

bool IsToldByContent(PyObject* value) {
  return PyTuple_Check(value) || PyList_CheckExact(value) || PyDict_CheckExact(value) ||
         (!IsTensor(value) && FieldsOf(Py_TYPE(value)) != nullptr);
}

}  // namespace ingot::client
