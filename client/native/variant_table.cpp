// SPDX-License-Identifier: Apache-2.0
#include "client/native/variant_table.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace ingot::client {

void RunInputs::Clear() {
  tensors.clear();
  for (PyObject* object : held) Py_DECREF(object);
  held.clear();
}

BoundVariant::BoundVariant(std::shared_ptr<Program> program, std::unique_ptr<OutputTree> outputs)
    : program_(std::move(program)), outputs_(std::move(outputs)) {}

BoundVariant::~BoundVariant() {
  for (const ObjectCheck& check : object_checks_) Py_DECREF(check.expected);
  for (PyObject* object : objects_) Py_DECREF(object);
}

void BoundVariant::AddObjectCheck(ObjectPath path, PyObject* expected) {
  object_checks_.push_back({std::move(path), Py_NewRef(expected)});
}

void BoundVariant::AddObject(PyObject* object) {
  PyObject* reference = PyWeakref_NewRef(object, nullptr);
  if (reference == nullptr) {
    PyErr_Clear();
    reference = Py_NewRef(object);
  }
  objects_.push_back(reference);
}

void BoundVariant::AddProven(std::vector<int64_t> symbols) {
  const auto at = std::lower_bound(proven_.begin(), proven_.end(), symbols);
  if (at == proven_.end() || *at != symbols) proven_.insert(at, std::move(symbols));
}

bool BoundVariant::ObjectsMatch(const std::vector<PyObject*>& objects) const {
  if (objects.size() != objects_.size()) return false;
  for (size_t i = 0; i < objects.size(); ++i) {
    PyObject* bound = PyWeakref_Check(objects_[i]) ? PyWeakref_GetObject(objects_[i]) : objects_[i];
    if (bound != objects[i]) return false;
  }
  return true;
}

bool BoundVariant::StateHolds(const std::vector<PyObject*>& objects) const {
  if (watch_ != nullptr && !watch_->Holds()) return false;
  for (const ObjectCheck& check : object_checks_) {
    PyObject* found = check.path.Follow(objects);
    Py_XDECREF(found);
    // Compared by address only, so the dropped reference does not matter.
    if (found != check.expected) return false;
  }
  return true;
}

bool BoundVariant::Fetch(const std::vector<PyObject*>& objects, RunInputs& inputs) const {
  for (const ObjectPath& path : fetches_) {
    PyObject* found = path.Follow(objects);
    if (found == nullptr) return false;
    inputs.held.push_back(found);
    if (!THPVariable_Check(found)) return false;
    inputs.tensors.push_back(&THPVariable_Unpack(found));
  }
  return true;
}

bool BoundVariant::IsProven(const int64_t* symbols, size_t count) const {
  if (count == 0) return true;
  const auto less = [count](const std::vector<int64_t>& a, const int64_t* b) {
    return std::lexicographical_compare(a.begin(), a.end(), b, b + count);
  };
  const auto at = std::lower_bound(proven_.begin(), proven_.end(), symbols, less);
  if (at != proven_.end() && std::equal(at->begin(), at->end(), symbols, symbols + count)) return true;
  return !range_.empty() && range_.Holds({symbols, count});
}

bool BoundVariant::AnyWeightRequiresGrad() const {
  return std::any_of(weights_.begin(), weights_.end(),
                     [](const at::Tensor& weight) { return weight.requires_grad(); });
}

}  // namespace ingot::client
