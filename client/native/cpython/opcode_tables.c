// SPDX-License-Identifier: Apache-2.0
// CPython's own table of specialised instructions, which only C can include.
#include <Python.h>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#define Py_BUILD_CORE 1
#define NEED_OPCODE_TABLES 1
#include <internal/pycore_opcode.h>

const unsigned char* ingot_general_opcodes(void) { return _PyOpcode_Deopt; }
#endif
