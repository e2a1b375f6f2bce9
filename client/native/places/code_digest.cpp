// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/code_digest.h"

#include <opcode.h>

#include "client/native/cpython/code_facts.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/places/value_digest.h"

namespace ingot::client {
namespace {

bool LoadsConstant(uint8_t opcode) {
#ifdef RETURN_CONST
  if (opcode == RETURN_CONST) return true;
#endif
  return opcode == LOAD_CONST;
}

/// True when the bytecode loads constant 0; otherwise a string there is only a docstring.
bool UsesFirstConstant(PyObject* bytecode) {
  const auto* code = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytecode));
  const Py_ssize_t size = PyBytes_GET_SIZE(bytecode);
  for (Py_ssize_t i = 0; i + 1 < size; i += 2) {
    const bool extended = i >= 2 && code[i - 2] == EXTENDED_ARG;
    if (LoadsConstant(code[i]) && code[i + 1] == 0 && !extended) return true;
  }
  return false;
}

void AddConstant(Hasher& hasher, PyObject* constant, ValueWriter& writer) {
  writer.Clear();
  if (PyCode_Check(constant)) {
    // The function that is made of it takes its first constant for its docstring, and these names.
    const auto* code = reinterpret_cast<PyCodeObject*>(constant);
    const bool has_first = PyTuple_GET_SIZE(code->co_consts) > 0;
    writer.Write(has_first ? PyTuple_GET_ITEM(code->co_consts, 0) : Py_None);
    writer.Write(code->co_name);
    writer.Write(code->co_qualname);
  }
  writer.Write(constant);
  // One that lies too deep is that of this code object alone.
  const Digest digest = writer.FinishOrUntold();
  hasher.Add(digest.low);
  hasher.Add(digest.high);
}

Digest Compute(PyObject* object) {
  auto* code = reinterpret_cast<PyCodeObject*>(object);
  Hasher hasher;
  for (int count : {code->co_argcount, code->co_posonlyargcount, code->co_kwonlyargcount, code->co_flags}) {
    hasher.Add(static_cast<uint64_t>(count));
  }
  PythonRef bytecode(PyCode_GetCode(code));
  if (!bytecode) return {};
  hasher.AddField({reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytecode.get())),
                   static_cast<size_t>(PyBytes_GET_SIZE(bytecode.get()))});
  ValueWriter writer;
  const Py_ssize_t constants = PyTuple_GET_SIZE(code->co_consts);
  for (Py_ssize_t i = 0; i < constants; ++i) {
    PyObject* constant = PyTuple_GET_ITEM(code->co_consts, i);
    const bool docstring =
        i == 0 && (PyUnicode_Check(constant) || constant == Py_None) && !UsesFirstConstant(bytecode.get());
    if (!docstring) AddConstant(hasher, constant, writer);
  }
  writer.Clear();
  writer.Write(code->co_names);
  for (const char* name : {"co_varnames", "co_freevars", "co_cellvars", "co_exceptiontable"}) {
    PythonRef value(PyObject_GetAttrString(object, name));
    if (value) writer.Write(value.get());
  }
  const Digest names = writer.FinishOrUntold();
  hasher.Add(names.low);
  hasher.Add(names.high);
  return hasher.Finish();
}

}  // namespace

Digest DigestOfCode(PyObject* code) {
  CodeFacts* facts = FactsOf(code);
  if (facts == nullptr) return Compute(code);
  if (!facts->digest) facts->digest = Compute(code);
  return *facts->digest;
}

}  // namespace ingot::client
