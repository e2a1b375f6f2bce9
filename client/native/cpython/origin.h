// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>
#include <string_view>

namespace ingot::client {

/// Whose code something is. PyTorch's and Python's own belong to versions that the entry key names;
/// everything else may change from one start to the next. All need the GIL.

/// Whether nobody can change a class: those made in C.
inline bool IsImmutable(PyTypeObject* type) { return (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0; }
/// UTF-8 of a string, valid as long as it lives; empty for anything else.
std::string_view ViewOf(PyObject* text);
/// repr(), or "?" where that fails.
std::string ReprOf(PyObject* value);
/// What a class itself defines; borrowed, null while the class is being made.
PyObject* DictOf(PyTypeObject* type);
/// `__module__` of a class.
std::string_view ModuleOf(PyTypeObject* type);
/// `__qualname__` of a class.
std::string_view QualnameOf(PyTypeObject* type);
/// What a loaded module has under a name, borrowed; null where there is none. To import it would ask the frame that
/// runs for its builtins, which may be none.
PyObject* LoadedAttribute(const char* module, const char* name);
/// What sys.modules holds under a name; borrowed, null where that is nothing, or there is no name.
PyObject* ModuleNamed(PyObject* name);
/// The module itself.
PyObject* LoadedModule(const char* name);
/// Whether a function finds its builtins elsewhere than nearly all do, in the module of that name.
bool HasOwnBuiltins(PyObject* function);
/// `__name__` among the variables of a module; borrowed, null where there is none.
PyObject* NameOfGlobals(PyObject* globals);
/// Whether a file lies in the folder of a package that is loaded.
bool LiesIn(const char* package, std::string_view file);
/// "torch" or "torch.something".
bool IsTorchName(std::string_view module);
/// A module of Python's standard library, builtins included; `__main__` is not.
bool IsStandardName(std::string_view module);

/// A Python function of an installed library.
bool IsInstalled(PyObject* function);
/// A function of PyTorch, of Python itself or of another installed library.
bool IsOfLibrary(PyObject* function);
/// The `__del__` of a program's own class, borrowed; null where there is none.
PyObject* OwnFinalizer(PyTypeObject* type);

}  // namespace ingot::client
