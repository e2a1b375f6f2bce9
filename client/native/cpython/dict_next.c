// SPDX-License-Identifier: Apache-2.0
// From 3.13 on CPython keeps its own such function to itself; what the table of a dict is, only C can include.
#include "client/native/cpython/dict_next.h"

#if PY_VERSION_HEX < 0x030D0000

int ingot_dict_next(PyObject* dict, Py_ssize_t* at, PyObject** key, PyObject** value, Py_hash_t* hash) {
  return _PyDict_Next(dict, at, key, value, hash);
}

#else

#define Py_BUILD_CORE 1
#include <internal/pycore_dict.h>

int ingot_dict_next(PyObject* dict, Py_ssize_t* at, PyObject** key, PyObject** value, Py_hash_t* hash) {
  if (PyDict_Next(dict, at, key, value) == 0) return 0;
  PyDictKeysObject* const keys = ((PyDictObject*)dict)->ma_keys;
  // Text keeps its hash itself. Of other tables `at` counts entries, and stands behind this one.
  *hash = DK_IS_UNICODE(keys) ? PyObject_Hash(*key) : DK_ENTRIES(keys)[*at - 1].me_hash;
  return 1;
}

#endif
