// SPDX-License-Identifier: Apache-2.0
#include "client/native/observe/moving_numbers.h"

#include <ATen/Functions.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include <deque>
#include <utility>

#include "client/native/cpython/drop_error.h"
#include "client/native/observe/observer.h"
#include "client/native/places/field_content.h"
#include "client/native/symbolic/size_terms.h"

namespace ingot::client {
namespace {

/// Takes over a number that another thread may have borrowed from its tuple: it goes when many others have come.
void Lend(PyObject* number) {
  static constexpr size_t kLentMax = 4096;
  static auto* const lent = new std::deque<PyObject*>();  // Never freed: Python ends first.
  lent->push_back(number);
  if (lent->size() <= kLentMax) return;
  Py_DECREF(lent->front());
  lent->pop_front();
}

/// Puts an equal value in a place, without running code of the program. False where that cannot be done.
bool Replace(PyObject* holder, const Step& step, PyObject* value) {
  PyObject* key = step.key.get();
  bool done = false;
  switch (step.access) {
    case AccessKind::kAttribute: {
      PyObject* dict = PyType_Check(holder) ? nullptr : OwnDict(holder);  // A class is read by kClass.
      done = dict != nullptr && PyDict_SetItem(dict, key, value) == 0;
      break;
    }
    case AccessKind::kItem:
      if (PyDict_Check(holder)) {
        done = PyDict_SetItem(holder, key, value) == 0;
      } else if (PyList_Check(holder)) {
        const Py_ssize_t at = PyLong_AsSsize_t(key);
        done = at >= 0 && at < PyList_GET_SIZE(holder) && PyList_SetItem(holder, at, Py_NewRef(value)) == 0;
      } else if (PyTuple_Check(holder)) {
        const Py_ssize_t at = PyLong_AsSsize_t(key);
        done = at >= 0 && at < PyTuple_GET_SIZE(holder);
        // Code that has borrowed what lies there may go on with it as long as the tuple lives.
        if (done) Lend(std::exchange(reinterpret_cast<PyTupleObject*>(holder)->ob_item[at], Py_NewRef(value)));
      }
      break;
    case AccessKind::kSlot: {
      PyObject* member = LookUpInClass(Py_TYPE(holder), key);
      done = member != nullptr && PyObject_TypeCheck(member, &PyMemberDescr_Type) &&
             Py_TYPE(member)->tp_descr_set(member, holder, value) == 0;
      break;
    }
    case AccessKind::kClass: {
      PyObject* order = PyType_Check(holder) ? reinterpret_cast<PyTypeObject*>(holder)->tp_mro : nullptr;
      for (Py_ssize_t i = 0; order != nullptr && i < PyTuple_GET_SIZE(order); ++i) {
        PyObject* one = PyTuple_GET_ITEM(order, i);
        PyObject* dict = OwnDict(one);
        if (dict == nullptr || PyDict_GetItemWithError(dict, key) == nullptr) continue;
        done = PyType_Type.tp_setattro(one, key, value) == 0;  // Of a type made in C it fails.
        break;
      }
      break;
    }
    case AccessKind::kCell: {
      PyObject* cell = CellNamed(holder, key);
      done = cell != nullptr && PyCell_Set(cell, value) == 0;
      break;
    }
    default: break;
  }
  DropError();
  return done;
}

}  // namespace

std::optional<at::Tensor> MovingNumbers::TensorOf(PyObject* value) {
  const auto as = FetchedAs(value);
  if (as == Fetched::kFloat) return at::scalar_tensor(PyFloat_AS_DOUBLE(value), at::kDouble);
  if (as == Fetched::kInteger) return at::scalar_tensor(PyLong_AsLongLong(value), at::kLong);
  if (as == Fetched::kSize) return at::empty_strided({PyLong_AsLongLong(value) + kShift}, {0}, at::kFloat);
  return std::nullopt;
}

void MovingNumbers::Put(const std::string& path, PathReader& reader, Observer& observer) {
  auto place = reader.PlaceOf(path);
  if (!place) return;
  const PlaceValue seen = LoadPlace(place->holder.get(), place->step.access, place->step.key.get());
  auto tensor = seen.object ? TensorOf(seen.object.get()) : std::nullopt;
  if (!tensor) return;
  PythonRef wrapped(THPVariable_Wrap(*tensor)), made;
  made = Make(seen.object.get(), wrapped.get(), tensor->dim() == 1 ? tensor->size(0) : 0, path, observer);
  if (!made || !Replace(place->holder.get(), place->step, made.get())) return;
  all_.push_back({path, std::move(place->holder), std::move(place->step), std::move(made), std::move(*tensor),
                  std::move(wrapped), PythonRef::Borrow(seen.object.get())});
}

PythonRef MovingNumbers::Make(PyObject* value, PyObject* wrapped, int64_t size, const std::string& where,
                              Observer& observer) {
  const auto as = FetchedAs(value);
  if (as != Fetched::kSize) {
    PythonRef made(as == Fetched::kFloat ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(value))
                                         : SizeTerms::OwnInt(PyLong_AsLongLong(value)));
    if (made) observer.numbers().Adopt(made.get(), wrapped);
    if (made) observer.StandsFor(made.get(), value);
    return made;
  }
  SizeTerms& sizes = observer.sizes();
  const auto whole = sizes.OfTensor(SizeTerms::Op::Size, wrapped, 0, size);
  const auto term = sizes.Combine(SizeTerms::Op::Sub, whole, sizes.Number(kShift));
  PythonRef made(term ? sizes.Make(*term, where) : nullptr);
  if (made) terms_.emplace(made.get(), whole);
  if (made) observer.StandsFor(made.get(), value);
  return made;
}

PythonRef MovingNumbers::Own(PyObject* value, const at::Tensor& tensor, const std::string& name, Observer& observer) {
  PythonRef wrapped(THPVariable_Wrap(tensor));
  PythonRef made = Make(value, wrapped.get(), tensor.dim() == 1 ? tensor.size(0) : 0, name, observer);
  held_.push_back(std::move(wrapped));
  held_.push_back(PythonRef::Borrow(made.get()));
  return made;
}

bool MovingNumbers::IsFixed(PyObject* own, Observer& observer) const {
  const auto it = terms_.find(own);
  if (it == terms_.end()) return observer.numbers().Find(own) == nullptr || observer.numbers().IsAnyFixedOf(own);
  return observer.sizes().lost() || observer.sizes().IsAnyFixedOf(it->second);
}

void MovingNumbers::TakeBack() {
  for (const One& one : all_) {
    const PlaceValue seen = LoadPlace(one.holder.get(), one.step.access, one.step.key.get());
    if (seen.object.get() != one.made.get()) continue;
    if (PyTuple_Check(one.holder.get())) {
      Replace(one.holder.get(), one.step, one.before.get());
      continue;
    }
    if (!PyLong_CheckExact(one.made.get())) continue;
    const PythonRef kept(PyLong_FromLongLong(PyLong_AsLongLong(one.made.get())));
    if (kept) Replace(one.holder.get(), one.step, kept.get());
  }
}

}  // namespace ingot::client
