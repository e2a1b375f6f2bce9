// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/compiled.h"

#include <structmember.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <string_view>

#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_ref.h"

namespace ingot::client {
namespace {

// Also in client/python/ingot/_native.pyi, for checkers of types.
constexpr std::array<std::string_view, 10> kVerbs = {"as_text",      "config",    "export",   "prepare", "report",
                                                     "save_capture", "soundness", "variants", "wait",    "why_miss"};

PyObject* RefuseNew(PyTypeObject* /*type*/, PyObject* /*args*/, PyObject* /*kwargs*/) {
  PyErr_SetString(PyExc_TypeError, "ingot.Compiled is made by ingot.compile");
  return nullptr;
}

PyMethodDef methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Compiled[[int], str] in annotations."},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

PyTypeObject* CompiledType() { return &type; }

PyObject* FindVerb(PyObject* engine, PyObject* name) {
  const std::string_view text = ViewOf(name);
  if (text == "_engine") return Py_NewRef(engine);
  return std::ranges::find(kVerbs, text) == kVerbs.end() ? nullptr : PyObject_GetAttr(engine, name);
}

PyObject* CallFacade(const char* function, const char* format, ...) {
  PyObject* const callable = LoadedAttribute("ingot.facade", function);
  if (callable == nullptr) return PyErr_Format(PyExc_ImportError, "ingot.facade is not loaded");
  va_list values;
  va_start(values, format);
  const PythonRef arguments(Py_VaBuildValue(format, values));
  va_end(values);
  return arguments ? PyObject_CallObject(callable, arguments.get()) : nullptr;
}

int AddCompiledType(PyObject* module) {
  type.tp_name = "ingot.Compiled";
  type.tp_basicsize = sizeof(CompiledObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_new = RefuseNew;
  type.tp_vectorcall_offset = offsetof(CompiledObject, vectorcall);
  type.tp_weaklistoffset = offsetof(CompiledObject, weakrefs);
  type.tp_call = PyVectorcall_Call;
  type.tp_methods = methods;
  type.tp_doc = "A compiled callable; made by ingot.compile and ingot.cache_compile.";
  PyObject* verbs = PyTuple_New(kVerbs.size());
  for (size_t i = 0; verbs != nullptr && i < kVerbs.size(); ++i) {
    PyTuple_SET_ITEM(verbs, i,
                     PyUnicode_FromStringAndSize(kVerbs[i].data(), static_cast<Py_ssize_t>(kVerbs[i].size())));
  }
  if (verbs == nullptr || PyModule_AddObject(module, "verbs", verbs) != 0) return -1;
  return PyModule_AddType(module, &type);
}

}  // namespace ingot::client
