// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/torch_ops.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/places/place_access.h"

namespace ingot::client {
namespace {

struct OperatorType {
  const char* name;
  bool makes;                    ///< what it is first asked for
  PyTypeObject* type = nullptr;  ///< kept for good
  PyObject* hook = nullptr;      ///< `__getattr__` as PyTorch has it
  PyObject* code = nullptr;      ///< of that
};

std::array<OperatorType, 6> types = {{{"_Ops", true},
                                      {"_OpNamespace", true},
                                      {"_HigherOrderNamespace", true},
                                      {"OpOverloadPacket", true},
                                      {"OpOverload", false},
                                      {"TorchBindOpOverload", false}}};

const OperatorType* Find(PyTypeObject* type) {
  const auto* found = std::ranges::find(types, type, &OperatorType::type);
  return type == nullptr || found == types.end() ? nullptr : found;
}

PyObject* HookName() {
  static PyObject* const name = PyUnicode_InternFromString("__getattr__");
  return name;
}

}  // namespace

void RememberOperatorTypes() {
  for (OperatorType& one : types) {
    PyObject* const type = LoadedAttribute("torch._ops", one.name);
    if (type == nullptr || !PyType_Check(type)) continue;
    one.type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
    PyObject* const hook = LookUpInClass(one.type, HookName());
    if (hook == nullptr || !PyFunction_Check(hook)) continue;
    one.hook = Py_NewRef(hook);
    one.code = Py_NewRef(PyFunction_GET_CODE(hook));
  }
}

bool IsOfTorchOps(PyTypeObject* type) { return Find(type) != nullptr; }

bool MakesOperators(PyTypeObject* type) {
  const OperatorType* const found = Find(type);
  return found != nullptr && found->makes && found->hook != nullptr && LookUpInClass(type, HookName()) == found->hook &&
         PyFunction_GET_CODE(found->hook) == found->code;
}

void MakeOperator(PyObject* holder, PyObject* name) {
  PyTypeObject* const type = Py_TYPE(holder);
  if (!MakesOperators(type) || !PyUnicode_CheckExact(name) || LookUpInClass(type, name) != nullptr) return;
  const PythonRef made(PyObject_GetAttr(holder, name));
  DropError();
}

std::string SchemaOfOperator(PyObject* function) {
  static auto* const known = new std::unordered_map<PyObject*, std::string>;  // Each is kept with its name.
  if (!PyCFunction_Check(function)) return {};
  const auto* const own = reinterpret_cast<PyCFunctionObject*>(function);
  if (*own->m_ml->ml_name != 0 || !ViewOf(own->m_module).starts_with("torch._ops.")) return {};
  if (const auto found = known->find(function); found != known->end()) return found->second;
  // It says what it takes when it is handed what it does not, before it computes anything.
  const PythonRef none(PyTuple_New(0)), wrong(Py_BuildValue("{s:O}", "no argument", Py_None));
  const PythonRef result(PyObject_Call(function, none.get(), wrong.get()));
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const PythonRef held_type(type), held_value(value), held_trace(trace);
  const PythonRef text(value == nullptr ? nullptr : PyObject_Str(value));
  DropError();
  const std::string_view said = ViewOf(text.get());
  const size_t at = said.find("::");
  std::string schema(at == said.npos ? std::string_view() : said.substr(0, said.find('\n')));
  Py_INCREF(function);
  return known->emplace(function, std::move(schema)).first->second;
}

}  // namespace ingot::client
