// SPDX-License-Identifier: Apache-2.0
#include "client/native/object_path.h"

#include <stdexcept>

namespace ingot::client {

/// `steps` is a list of ("a" | "i", key) tuples.
ObjectPath::ObjectPath(size_t object, PyObject* steps) : object_(object) {
  if (!PyList_Check(steps)) throw std::invalid_argument("an object path is a list of steps");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(steps); ++i) {
    PyObject* step = PyList_GET_ITEM(steps, i);
    if (!PyTuple_Check(step) || PyTuple_GET_SIZE(step) != 2) {
      throw std::invalid_argument("a step is (kind, key)");
    }
    const bool attribute = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(step, 0), "a") == 0;
    steps_.push_back({attribute, Py_NewRef(PyTuple_GET_ITEM(step, 1))});
  }
}

ObjectPath::~ObjectPath() {
  for (const Step& step : steps_) Py_DECREF(step.key);
}

PyObject* ObjectPath::Follow(const std::vector<PyObject*>& objects) const {
  if (object_ >= objects.size()) return nullptr;
  PyObject* value = Py_NewRef(objects[object_]);
  for (const Step& step : steps_) {
    PyObject* next = step.attribute ? PyObject_GetAttr(value, step.key) : PyObject_GetItem(value, step.key);
    Py_DECREF(value);
    if (next == nullptr) {
      PyErr_Clear();
      return nullptr;
    }
    value = next;
  }
  return value;
}

}  // namespace ingot::client
