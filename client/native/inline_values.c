// SPDX-License-Identifier: Apache-2.0
// In C, since the layouts are in headers of Python's own that are not C++.
#include "client/native/inline_values.h"

#if PY_VERSION_HEX >= 0x030D0000

#define Py_BUILD_CORE 1
#include <internal/pycore_dict.h>

const void* IngotInlineValues(PyObject* dict, size_t* size) {
  const PyDictValues* values = ((PyDictObject*)dict)->ma_values;
  if (values == NULL || !values->embedded) return NULL;
  // The order follows the values, a byte for each.
  *size = offsetof(PyDictValues, values) + values->capacity * sizeof(PyObject*) + values->size;
  return values;
}

#else

const void* IngotInlineValues(PyObject* dict, size_t* size) {
  (void)dict;
  (void)size;
  return NULL;
}

#endif
