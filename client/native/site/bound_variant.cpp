// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/bound_variant.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <stdexcept>

#include "client/native/cpython/drop_error.h"
#include "client/native/observe/moving_numbers.h"
#include "client/native/places/field_content.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/site/bindings.h"

namespace ingot::client {

void RunInputs::Clear() {
  tensors.clear();
  for (PyObject* object : held) Py_DECREF(object);
  held.clear();
  numbers.clear();
}

BoundVariant::BoundVariant(std::shared_ptr<Program> program, std::unique_ptr<OutputTree> outputs)
    : program_(std::move(program)), outputs_(std::move(outputs)) {}

BoundVariant::~BoundVariant() {
  for (PyObject* object : objects_) Py_DECREF(object);
}

namespace {

constexpr const char* kCapsule = "ingot.BoundVariant";

/// Called when an object that a variant is bound to goes; `capsule` holds the variant weakly.
PyObject* OnGone(PyObject* capsule, PyObject* /*reference*/) {
  auto* held = static_cast<std::weak_ptr<BoundVariant>*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (held == nullptr) return nullptr;
  if (const auto variant = held->lock()) variant->Drop();
  Py_RETURN_NONE;
}

PyMethodDef kOnGone = {"on_gone", OnGone, METH_O, nullptr};

PyObject* GoneCallback(const std::shared_ptr<BoundVariant>& variant) {
  const PythonRef capsule(PyCapsule_New(new std::weak_ptr<BoundVariant>(variant), kCapsule, [](PyObject* object) {
    delete static_cast<std::weak_ptr<BoundVariant>*>(PyCapsule_GetPointer(object, kCapsule));
  }));
  return PyCFunction_New(&kOnGone, capsule.get());
}

}  // namespace

void BoundVariant::AddObject(const std::shared_ptr<BoundVariant>& variant, PyObject* object) {
  const PythonRef callback(GoneCallback(variant));
  PyObject* reference = PyWeakref_NewRef(object, callback.get());
  if (reference == nullptr) {
    DropError();
    reference = Py_NewRef(object);
  }
  variant->objects_.push_back(reference);
}

int BoundVariant::Traverse(visitproc visit, void* arg) const {
  for (PyObject* object : objects_) Py_VISIT(object);
  int stop = 0;
  const auto visit_path = [&](const ObjectPath& path) { return stop == 0 ? stop = path.Traverse(visit, arg) : stop; };
  for (const ObjectPath& path : fetches_) visit_path(path);
  for (const auto& [one, other] : same_) visit_path(one), visit_path(other);
  if (stop != 0) return stop;
  if (const int stop = outputs_->Traverse(visit, arg)) return stop;
  return state_guards_.use_count() == 1 ? state_guards_->Traverse(visit, arg) : 0;
}

void BoundVariant::AddProven(std::vector<int64_t> symbols) {
  const auto at = std::lower_bound(proven_.begin(), proven_.end(), symbols);
  if (at == proven_.end() || *at != symbols) proven_.insert(at, std::move(symbols));
}

bool BoundVariant::ObjectsMatch(const std::vector<PyObject*>& objects) const {
  if (objects.size() != objects_.size()) return false;
  for (size_t i = 0; i < objects.size(); ++i) {
    const PythonRef target = TargetOf(objects_[i]);
    if ((target ? target.get() : objects_[i]) != objects[i]) return false;
  }
  return true;
}

bool BoundVariant::ChangesAny(const std::vector<PyObject*>& parts) const {
  // A dict of attributes that does not exist yet is none that is changed: none is made in every call.
  const auto has_attributes = [](PyObject* part, PyObject* dict) {
    PyObject* const* place = _PyObject_GetDictPtr(part);
    return place != nullptr && *place == dict;
  };
  return std::ranges::any_of(changed_, [&](PyObject* changed) {
    PyObject* const dict = OwnDict(changed);
    return std::ranges::any_of(parts, [&](PyObject* part) {
      return part == changed || part == dict || (PyDict_Check(changed) && has_attributes(part, changed));
    });
  });
}

bool BoundVariant::Fetch(const std::vector<PyObject*>& objects, RunInputs& inputs) const {
  for (const ObjectPath& path : fetches_) {
    PyObject* found = path.Follow(objects);
    if (found == nullptr) return false;
    inputs.held.push_back(found);
    const auto number = MovingNumbers::TensorOf(found);
    if (!number && !IsTensor(found)) return false;
    inputs.tensors.push_back(number ? &inputs.numbers.emplace_back(*number) : &THPVariable_Unpack(found));
  }
  return std::ranges::all_of(same_, [&](const auto& pair) {
    const PythonRef one(pair.first.Follow(objects)), other(pair.second.Follow(objects));
    return one && one.get() == other.get();
  });
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

bool BoundVariant::AnyWeightIsTracked() const {
  auto untracked = untracked_.begin();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (untracked != untracked_.end() && *untracked == static_cast<int64_t>(i)) {
      ++untracked;
    } else if (weights_[i].requires_grad()) {
      return true;
    }
  }
  return false;
}

std::shared_ptr<BoundVariant> BoundVariant::Of(PyObject* dict) {
  namespace py = pybind11;
  const auto parts = py::reinterpret_borrow<py::dict>(dict);
  auto program = parts["program"].cast<std::shared_ptr<Program>>();
  auto outputs = OutputTree::Parse(parts["outputs"].ptr(), parts["leaf_count"].cast<size_t>(),
                                   parts["input_count"].cast<size_t>());
  if (!outputs) throw std::invalid_argument(outputs.error().message());
  auto variant = std::make_shared<BoundVariant>(std::move(program), std::move(outputs).value());
  variant->set_state_guards(parts["state_guards"].cast<std::shared_ptr<StateGuards>>());
  variant->set_validated(parts["validated"].cast<std::shared_ptr<ValidatedRecord>>());
  for (py::handle object : parts["objects"]) BoundVariant::AddObject(variant, object.ptr());
  const PathReader reader(NamedRoots(parts["roots"].cast<py::dict>()));
  const auto path_of = [&](py::handle text) {
    auto path = ObjectPath::Parse(text.cast<std::string>(), reader);
    if (!path) throw std::invalid_argument(path.error().message());
    return std::move(path).value();
  };
  for (py::handle object : parts["changes"]) variant->AddChanged(object.ptr());
  for (py::handle fetch : parts["fetches"]) variant->AddFetch(path_of(fetch));
  for (py::handle pair : parts["same"]) {
    const auto [one, other] = pair.cast<std::pair<py::object, py::object>>();
    variant->AddSame(path_of(one), path_of(other));
  }
  for (py::handle weight : parts["weights"]) variant->AddWeight(THPVariable_Unpack(weight.ptr()));
  variant->set_mode(parts["mode"].cast<std::string>());
  variant->set_untracked(parts["untracked"].cast<std::vector<int64_t>>());
  for (py::handle symbols : parts["proven"]) variant->AddProven(symbols.cast<std::vector<int64_t>>());
  variant->set_heavy(parts["heavy"].cast<bool>());
  auto policy = GuardPolicy::Parse(parts["guards"].cast<std::string>());
  if (!policy) throw std::invalid_argument(policy.error().message());
  variant->set_policy(*policy);
  auto range = guards::Ranges::Parse(parts["range"].cast<std::string>());
  if (!range) throw std::invalid_argument(range.error().message());
  variant->set_range(std::move(range).value());
  variant->set_agreed(parts["agreed"].cast<std::shared_ptr<AgreedSizes>>());
  variant->set_verifiable(parts["verifiable"].cast<bool>());
  variant->set_number(parts["number"].cast<int64_t>());
  return variant;
}

}  // namespace ingot::client
