// SPDX-License-Identifier: Apache-2.0
#include "client/native/moving_ints.h"

#include <ATen/Functions.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "client/native/field_content.h"

namespace ingot::client {
namespace {

/// The cell of a function's variable, borrowed; null where it has none of that name.
PyObject* CellOf(PyObject* function, PyObject* name) {
  if (!PyFunction_Check(function)) return nullptr;
  const PythonRef names(PyObject_GetAttrString(PyFunction_GET_CODE(function), "co_freevars"));
  PyObject* cells = PyFunction_GET_CLOSURE(function);
  PyErr_Clear();
  for (Py_ssize_t i = 0; names && cells != nullptr && i < PyTuple_GET_SIZE(cells); ++i) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), i), name) == 0) return PyTuple_GET_ITEM(cells, i);
  }
  return nullptr;
}

/// Puts an equal value in a place, without running code of the program. False where that cannot be done.
bool Replace(PyObject* holder, const Step& step, PyObject* value) {
  PyObject* key = step.key.get();
  bool done = false;
  switch (step.reading) {
    case Reading::kAttribute: {
      // A class would have to be told.
      PyObject* dict = PyType_Check(holder) ? nullptr : OwnDict(holder);
      done = dict != nullptr && PyDict_SetItem(dict, key, value) == 0;
      break;
    }
    case Reading::kItem:
      if (PyDict_CheckExact(holder)) {
        done = PyDict_SetItem(holder, key, value) == 0;
      } else if (PyList_CheckExact(holder)) {
        const Py_ssize_t at = PyLong_AsSsize_t(key);
        done = at >= 0 && at < PyList_GET_SIZE(holder) && PyList_SetItem(holder, at, Py_NewRef(value)) == 0;
      }
      break;
    case Reading::kSlot: {
      PyObject* member = LookUpInClass(Py_TYPE(holder), key);
      done = member != nullptr && PyObject_TypeCheck(member, &PyMemberDescr_Type) &&
             Py_TYPE(member)->tp_descr_set(member, holder, value) == 0;
      break;
    }
    case Reading::kCell: {
      PyObject* cell = CellOf(holder, key);
      done = cell != nullptr && PyCell_Set(cell, value) == 0;
      break;
    }
    default: break;
  }
  PyErr_Clear();
  return done;
}

}  // namespace

at::Tensor MovingInts::At(int64_t value) { return at::empty_strided({value + kShift}, {0}, at::kFloat); }

void MovingInts::Put(const std::string& path, PathReader& reader, SizeTerms& sizes) {
  auto place = reader.PlaceOf(path);
  if (!place) return;
  const Seen seen = Look(place->holder.get(), place->step.reading, place->step.key.get());
  const auto value = SizeFrom(seen.object.get());
  if (!value) return;
  at::Tensor tensor = At(*value);
  PythonRef wrapped(THPVariable_Wrap(tensor));
  const auto size = sizes.OfTensor(SizeTerms::Op::Size, wrapped.get(), 0, *value + kShift);
  const auto term = sizes.Combine(SizeTerms::Op::Sub, size, sizes.Number(kShift));
  PythonRef made(term ? sizes.Make(*term, path) : nullptr);
  if (!made || !Replace(place->holder.get(), place->step, made.get())) return;
  all_.push_back({path, std::move(place->holder), std::move(place->step), std::move(made), std::move(tensor),
                  std::move(wrapped)});
}

void MovingInts::TakeBack() {
  for (const One& one : all_) {
    const Seen seen = Look(one.holder.get(), one.step.reading, one.step.key.get());
    if (seen.object.get() != one.made.get()) continue;
    const PythonRef kept(PyLong_FromLongLong(PyLong_AsLongLong(one.made.get())));
    if (kept) Replace(one.holder.get(), one.step, kept.get());
  }
}

}  // namespace ingot::client
