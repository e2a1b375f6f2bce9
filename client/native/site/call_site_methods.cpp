// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "client/native/site/bindings.h"
#include "client/native/site/call_site_object.h"
#include "client/native/site/compiled_protocol.h"
#include "client/native/site/timed_call.h"

namespace ingot::client {

namespace {

/// What is assigned is an attribute of what the user wrapped.
std::string TextOf(PyObject* bytes) { return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))}; }

/// install(signature, parts): adds a variant in front; returns how many the signature has.
PyObject* Install(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<CallSite*>(object);
  PyObject *signature, *parts;
  if (!PyArg_ParseTuple(args, "SO!", &signature, &PyDict_Type, &parts)) return nullptr;
  try {
    return PyLong_FromSize_t(self->variants.Install(TextOf(signature), BoundVariant::Of(parts)));
  } catch (pybind11::error_already_set& e) {
    e.restore();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  }
  return nullptr;
}

/// remove(program): forgets the program's variants in every signature; returns how many.
PyObject* Remove(PyObject* object, PyObject* handle) {
  auto* self = reinterpret_cast<CallSite*>(object);
  try {
    auto program = pybind11::handle(handle).cast<std::shared_ptr<Program>>();
    return PyLong_FromSize_t(self->variants.Remove(*program));
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
    return nullptr;
  }
}

/// prove(signature, program, sizes): the program's variants of a signature serve these symbol values as well; returns
/// how many variants there are.
PyObject* Prove(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<CallSite*>(object);
  PyObject *signature, *handle, *sizes;
  if (!PyArg_ParseTuple(args, "SOO", &signature, &handle, &sizes)) return nullptr;
  try {
    const auto program = pybind11::handle(handle).cast<std::shared_ptr<Program>>();
    const auto proven = pybind11::handle(sizes).cast<std::vector<std::vector<int64_t>>>();
    const boost::local_shared_ptr<VariantTable::OfSignature> known = self->variants.Of(TextOf(signature));
    size_t found = 0;
    for (const auto& variant : known == nullptr ? VariantTable::Variants() : known->variants) {
      if (&variant->program() != program.get()) continue;
      for (const std::vector<int64_t>& symbols : proven) variant->AddProven(symbols);
      ++found;
    }
    return PyLong_FromSize_t(found);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
    return nullptr;
  }
}

/// forget(signature, objects, program=None): drops the signature's bindings to these very objects, of one program or of
/// all.
PyObject* Forget(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<CallSite*>(object);
  PyObject *signature, *list, *handle = Py_None;
  if (!PyArg_ParseTuple(args, "SO!|O", &signature, &PyList_Type, &list, &handle)) return nullptr;
  std::shared_ptr<Program> program;
  try {
    if (handle != Py_None) program = pybind11::handle(handle).cast<std::shared_ptr<Program>>();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
    return nullptr;
  }
  std::vector<PyObject*> objects;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) objects.push_back(PyList_GET_ITEM(list, i));
  self->variants.Forget(TextOf(signature), objects, program.get());
  Py_RETURN_NONE;
}

/// Sets a number of the call site's.
template <uint64_t CallSite::* kField>
PyObject* SetNumber(PyObject* object, PyObject* value) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(value);
  if (PyErr_Occurred()) return nullptr;
  reinterpret_cast<CallSite*>(object)->*kField = number;
  Py_RETURN_NONE;
}

/// refuse(signature, in_pieces=None, has_parts=False): calls of this signature that no variant here serves run the
/// target from now on, of which parts may be served, or another callable.
PyObject* Refuse(PyObject* object, PyObject* args) {
  PyObject *signature, *in_pieces = Py_None;
  int has_parts = 0;
  if (!PyArg_ParseTuple(args, "S|Op", &signature, &in_pieces, &has_parts)) return nullptr;
  Refused& refused = reinterpret_cast<CallSite*>(object)->refused[TextOf(signature)];
  refused.has_parts = refused.has_parts || has_parts != 0;
  PythonRef before = PythonRef::Borrow(in_pieces == Py_None ? nullptr : in_pieces);
  if (before) std::swap(refused.in_pieces, before);  // What it was goes when the table is whole.
  Py_RETURN_NONE;
}

/// stand_aside(signature, sizes, calls): the next calls of such sizes (paces were told them, or a sequence of
/// tensors) run the plain function.
PyObject* StandAside(PyObject* object, PyObject* args) {
  PyObject *signature, *sizes;
  unsigned int calls;
  if (!PyArg_ParseTuple(args, "SOI", &signature, &sizes, &calls)) return nullptr;
  uint64_t number = 0;
  if (PyLong_Check(sizes)) {
    number = PyLong_AsUnsignedLongLong(sizes);
    if (PyErr_Occurred()) return nullptr;
  } else {
    try {
      const auto tensors = pybind11::handle(sizes).cast<std::vector<at::Tensor>>();
      std::vector<const at::Tensor*> all;
      for (const at::Tensor& tensor : tensors) all.push_back(&tensor);
      number = SizesOf(all);
    } catch (const std::exception& e) {
      PyErr_SetString(PyExc_TypeError, e.what());
      return nullptr;
    }
  }
  reinterpret_cast<CallSite*>(object)->variants.TrialsOf(TextOf(signature))->StandAside(number, calls);
  Py_RETURN_NONE;
}

/// leave_to_eager(reason): calls whose arguments are not taken for this reason run eagerly without a word from now on.
PyObject* LeaveToEager(PyObject* object, PyObject* reason) {
  const char* const text = PyUnicode_AsUTF8(reason);
  if (text == nullptr) return nullptr;
  reinterpret_cast<CallSite*>(object)->said.insert(text);
  Py_RETURN_NONE;
}

/// set_waiting(signature, is_waiting): calls of a signature run eagerly as long as no variant takes their sizes.
PyObject* SetWaiting(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<CallSite*>(object);
  PyObject* signature;
  int is_waiting;
  if (!PyArg_ParseTuple(args, "Sp", &signature, &is_waiting)) return nullptr;
  std::string key = TextOf(signature);
  if (is_waiting != 0) {
    self->waiting.insert(std::move(key));
  } else {
    self->waiting.erase(key);
  }
  Py_RETURN_NONE;
}

/// vary(arguments): the numbers of these arguments (positions and names) are inputs from now on.
PyObject* Vary(PyObject* object, PyObject* arguments) {
  if (!PyTuple_Check(arguments)) return PyErr_Format(PyExc_TypeError, "_vary takes a tuple of int and str");
  DynamicScalars varying = DynamicScalars::Of(arguments);
  std::swap(reinterpret_cast<CallSite*>(object)->varying, varying);
  Py_RETURN_NONE;
}

/// agree(group): the ranks of this group, by its name here, serve a call natively together or not at all.
PyObject* Agree(PyObject* object, PyObject* group) {
  const char* name = PyUnicode_AsUTF8(group);
  if (name == nullptr) return nullptr;
  reinterpret_cast<CallSite*>(object)->consensus = std::make_unique<const RankConsensus>(name);
  Py_RETURN_NONE;
}

PyObject* BePart(PyObject* object, PyObject* /*unused*/) {
  reinterpret_cast<CompiledObject*>(object)->is_part = true;
  Py_RETURN_NONE;
}

PyObject* HideParts(PyObject* object, PyObject* /*unused*/) {
  reinterpret_cast<CallSite*>(object)->hides_parts = true;
  Py_RETURN_NONE;
}

PyObject* TryPlain(PyObject* object, PyObject* paces) {
  Py_XSETREF(reinterpret_cast<CallSite*>(object)->paces, Py_NewRef(paces));
  Py_RETURN_NONE;
}

PyObject* Reset(PyObject* object, PyObject* /*unused*/) {
  auto* self = reinterpret_cast<CallSite*>(object);
  self->variants.Clear();
  decltype(self->refused) refused;
  refused.swap(self->refused);
  self->waiting.clear();
  self->said.clear();
  Py_RETURN_NONE;
}

}  // namespace

PyMethodDef kCallSiteMethods[] = {
    {"_serve", ServeNow, METH_VARARGS, "Answers a call, if a variant is here that can."},
    {"_install", Install, METH_VARARGS, "Adds a bound variant to a signature."},
    {"_prove", Prove, METH_VARARGS, "Adds proven sizes to a program's variants of a signature."},
    {"_remove", Remove, METH_O, "Forgets the variants of a program."},
    {"_forget", Forget, METH_VARARGS, "Drops the bindings of a signature to given objects, of one program or of all."},
    {"_refuse", Refuse, METH_VARARGS,
     "Runs calls of a signature eagerly that no variant serves, or by another callable."},
    {"_stand_aside", StandAside, METH_VARARGS, "Runs some calls of a signature by the plain function."},
    {"_try_plain", TryPlain, METH_O, "Runs the plain function where that is faster than what is served."},
    {"_leave_to_eager", LeaveToEager, METH_O, "Runs calls eagerly whose arguments are not taken for a reason."},
    {"_set_waiting", SetWaiting, METH_VARARGS, "Runs calls of a signature eagerly until it has a variant for them."},
    {"_vary", Vary, METH_O, "Takes the numbers of some arguments as inputs."},
    {"_pass_over", SetNumber<&CallSite::passed_over>, METH_O,
     "Runs some calls of new signatures eagerly before one is looked at again."},
    {"_set_verify", SetNumber<&CallSite::verify_every>, METH_O, "Verifies every n-th native call; 0: none."},
    {"_agree", Agree, METH_O, "Serves a call natively where all ranks of a group do."},
    {"_be_part", BePart, METH_NOARGS, "Serves only calls of programs that run in parts."},
    {"_hide_parts", HideParts, METH_NOARGS, "Serves a piece of a program: no part of it while it is not native."},
    {"_reset", Reset, METH_NOARGS, "Forgets every variant."},
    {"__reduce_ex__", ReduceCompiled, METH_O, "Pickles as what was wrapped."},
    {"__copy__", CopyCompiled, METH_NOARGS, "Itself, as functions do."},
    {"__deepcopy__", DeepCopyCompiled, METH_O, "Itself, unless what was wrapped has a copy: then that, compiled."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace ingot::client
