// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

/// PyDict_Next() that gives the hash which the dict keeps of the key as well: nobody asks the key.
#ifdef __cplusplus
extern "C"
#endif
    int ingot_dict_next(PyObject* dict, Py_ssize_t* at, PyObject** key, PyObject** value, Py_hash_t* hash);
