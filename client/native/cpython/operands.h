// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include "client/native/cpython/instruction.h"

namespace ingot::client {

/// Where an instruction finds what it takes: everything is borrowed and valid only now.
struct OperandSource {
  PyCodeObject* code;
  PyObject* locals;      ///< of a module or class that runs; else null
  PyObject** variables;  ///< of the frame, with its cells
  PyObject** top;        ///< one past the operands on the stack
  int argument;          ///< of the instruction

  PyObject* name(int index) const { return PyTuple_GET_ITEM(code->co_names, index); }
};

/// Fills in the operands of an instruction that finds them in the same places in every version of Python; false for any
/// other.
bool DecodeCommonOperands(int opcode, const OperandSource& source, Instruction& out);

}  // namespace ingot::client
