// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Where the values of a dict lie in the object it belongs to: their memory, with the order in
/// which they were set; null where the dict has its own. Valid until the dict is next written to.
const void* IngotInlineValues(PyObject* dict, size_t* size);

#ifdef __cplusplus
}
#endif
