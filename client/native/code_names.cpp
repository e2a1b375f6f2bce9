// SPDX-License-Identifier: Apache-2.0
#include "client/native/code_names.h"

#include <algorithm>

#include "client/native/code_facts.h"
#include "client/native/python_ref.h"

namespace ingot::client {
namespace {

/// Numbers of the instructions that matter; they change with every version of Python.
struct Opcodes {
  int load_global = -1;
  int load_name = -1;
  int extended_arg = -1;

  Opcodes() {
    const PythonRef module(PyImport_ImportModule("opcode"));
    const PythonRef table(module ? PyObject_GetAttrString(module.get(), "opmap") : nullptr);
    if (table && PyDict_Check(table.get())) {
      load_global = Number(table.get(), "LOAD_GLOBAL");
      load_name = Number(table.get(), "LOAD_NAME");
      extended_arg = Number(table.get(), "EXTENDED_ARG");
    }
    PyErr_Clear();
  }
  static int Number(PyObject* table, const char* name) {
    PyObject* number = PyDict_GetItemString(table, name);
    return number == nullptr ? -1 : static_cast<int>(PyLong_AsLong(number));
  }
};

std::vector<PyObject*> Find(PyObject* code) {
  static const Opcodes opcodes;
  std::vector<PyObject*> found;
  PyObject* names = reinterpret_cast<PyCodeObject*>(code)->co_names;
  // As compiled: without what the interpreter has specialised since.
  const PythonRef bytecode(PyCode_GetCode(reinterpret_cast<PyCodeObject*>(code)));
  if (!bytecode) {
    PyErr_Clear();
    return found;
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytecode.get()));
  const Py_ssize_t size = PyBytes_GET_SIZE(bytecode.get());
  Py_ssize_t argument = 0;
  for (Py_ssize_t i = 0; i + 1 < size; i += 2) {
    argument = argument << 8 | bytes[i + 1];
    if (bytes[i] == opcodes.extended_arg) continue;
    Py_ssize_t name = -1;
    if (bytes[i] == opcodes.load_name) name = argument;
    // Since 3.11 the lowest bit asks for a null below a callable.
    if (bytes[i] == opcodes.load_global) name = PY_VERSION_HEX >= 0x030B0000 ? argument >> 1 : argument;
    argument = 0;
    if (name < 0 || name >= PyTuple_GET_SIZE(names)) continue;
    PyObject* text = PyTuple_GET_ITEM(names, name);
    if (std::ranges::find(found, text) == found.end()) found.push_back(text);
  }
  return found;
}

}  // namespace

std::vector<PyObject*> GlobalNames(PyObject* code) {
  CodeFacts* facts = FactsOf(code);
  if (facts == nullptr) return Find(code);
  if (!facts->global_names) facts->global_names = Find(code);
  return *facts->global_names;
}

}  // namespace ingot::client
