// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>

namespace ingot::client {

/// What lies behind `torch.ops`: namespaces, operators and their overloads, told by their classes themselves and not
/// by what a class says of its module. All need the GIL.

/// Remembers the classes; once torch is there, and before a program can have changed anything.
void RememberOperatorTypes();

/// An operator or one of its overloads, or a namespace of them.
bool IsOfTorchOps(PyTypeObject* type);

/// Whether objects of a class make what they hold when it is first asked for, as PyTorch does it.
bool MakesOperators(PyTypeObject* type);

/// Has such an object make what it would make now for whoever asks for a name. Runs code of PyTorch's alone; nothing
/// happens where the name is no operator's, or another object's class is.
void MakeOperator(PyObject* holder, PyObject* name);

/// What the function behind an overload takes and gives, with the name of the overload; empty for anything else. The
/// function has no name by which Python could tell it from others.
std::string SchemaOfOperator(PyObject* function);

}  // namespace ingot::client
