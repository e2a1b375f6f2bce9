// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/code_facts.h"
#include "client/native/cpython/drop_error.h"

namespace ingot::client {
namespace {

void Free(void* facts) { delete static_cast<CodeFacts*>(facts); }

#if PY_VERSION_HEX >= 0x030C0000
Py_ssize_t RequestIndex() { return PyUnstable_Eval_RequestCodeExtraIndex(Free); }
int Get(PyObject* code, Py_ssize_t index, void** facts) { return PyUnstable_Code_GetExtra(code, index, facts); }
int Set(PyObject* code, Py_ssize_t index, void* facts) { return PyUnstable_Code_SetExtra(code, index, facts); }
#else
Py_ssize_t RequestIndex() { return _PyEval_RequestCodeExtraIndex(Free); }
int Get(PyObject* code, Py_ssize_t index, void** facts) { return _PyCode_GetExtra(code, index, facts); }
int Set(PyObject* code, Py_ssize_t index, void* facts) { return _PyCode_SetExtra(code, index, facts); }
#endif

}  // namespace

CodeFacts* FactsOf(PyObject* code) {
  static const Py_ssize_t index = RequestIndex();
  if (index < 0) return nullptr;
  void* known = nullptr;
  if (Get(code, index, &known) == 0 && known != nullptr) return static_cast<CodeFacts*>(known);
  auto* facts = new CodeFacts;
  if (Set(code, index, facts) == 0) return facts;
  DropError();
  delete facts;
  return nullptr;
}

}  // namespace ingot::client
