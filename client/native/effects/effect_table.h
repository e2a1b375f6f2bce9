// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "client/native/cpython/python_ref.h"

namespace ingot::client {

/// What a call of something made in C reads and writes besides its arguments' own values.
/// Everything that no entry names is refused.
enum class Effect : uint8_t {
  kRefused,   ///< depends on or changes what a log cannot express
  kPure,      ///< a function of the contents of its arguments; what it returns is new or among them
  kIdentity,  ///< asks whether its two arguments are one object
  kNothing,   ///< looks at identities only, or at nothing
  kClass,     ///< asks of what class its first argument is
  kArray,     ///< a function of the contents of numpy's arrays, unless it is told where to put the result
  kFill,      ///< changes its first argument, which must be the run's own, by the contents of the others
  kOperator,  ///< an operator of PyTorch's: the dispatcher sees the tensors, containers are read
  kEscape,    ///< gives a tensor's memory away: escapes.h
  kToList,    ///< reads all of a tensor
  kMakeTensor,  ///< an operator, unless its data is an array or a buffer
  kState,       ///< a setting of this thread that the call's shape holds; gives a plain value
  kReplayedQuery,      ///< a setting whose value is asked for again at every call
  kLength,
  kTruth,
  kGetAttribute,
  kSetAttribute,
  kDeleteAttribute,
  kGetItem,
  kSetItem,
  kDeleteItem,
  kContains,
  kGetEntry,  ///< dict.get
  kWhole,     ///< reads all of its first argument, one level deep, and the others' contents
  kAdd,       ///< changes its first argument in a way that depends on nothing in it
  kChange,    ///< reads all of its first argument and changes it
  kIterate,
  kNext,
  kImport,
  kMakeClass,
  kVars,  ///< vars()
  kGlobals,
  kAddress,     ///< id()
  kHash,        ///< hash() and `__hash__`
  kText,        ///< repr(), str.format and the like, of contents that may say addresses
  kContent,     ///< reads what its first argument is by content
  kRegistry,    ///< whether a class is, or is registered as, a subclass of an abstract one
  kAcquire,     ///< a lock that is waited for, and is given back before the run ends
  kRelease,     ///< a lock that the run has taken
  kContext,     ///< reads a context variable
  kSetContext,  ///< changes a context variable, which is as before when the call ends
  kApply,       ///< calls a class's `forward`
  kReduce,      ///< reads all that its first argument holds, to make another of it
  kAllocate,    ///< makes an empty object of its first argument, a class
  kConstruct,   ///< makes an object of its first argument, a class, with the others
  kWarn,        ///< writes a message, or raises it where a filter says so
  kMode,        ///< enters or leaves a mode of the thread, its first argument
  kPrint,       ///< writes text to a file that is given, or to the one that sys has
  kTypeHierarchy,       ///< asks of a class from which it comes, and of which class its other argument is
  kBind,        ///< its first argument, a descriptor, makes something of its second
  kCallsSelf,   ///< a bound call: its first argument is called with the others
};

/// The table of callables made in C, by qualified name; names as in `list.append`, `math.sqrt`,
/// `torch._C._nn.linear`. Python code needs no entry: its instructions are seen.
class EffectTable {
 public:
  /// One for the process. Needs the GIL, as everything here.
  static EffectTable& Shared();

  /// Of a function, method or descriptor made in C.
  Effect EffectOf(PyObject* callable);
  /// Of calling a class made in C.
  Effect EffectOfType(PyTypeObject* type);
  /// A word of the user's: calling this reads and writes nothing but its arguments.
  void MarkPure(PyObject* callable);
  bool IsMarkedPure(PyObject* callable) const { return marked_.contains(callable); }
  /// What was said so of, by name, in order.
  std::set<std::string> MarkedPure() const;

  static bool IsNative(PyObject* callable);
  /// operator.attrgetter and itemgetter, which look into what they are handed.
  static bool IsGetter(PyObject* value);
  /// How the table names it.
  static std::string NameOf(PyObject* callable);
  /// The last part of it; nothing for what is neither a function nor a descriptor made in C.
  static std::string_view ShortNameOf(PyObject* callable);

 private:
  struct Known {
    PythonRef holder;  ///< keeps the address from being used again
    Effect effect;
  };
  std::unordered_map<const void*, Known> known_;
  std::unordered_map<PyObject*, PythonRef> marked_;
};

/// The type of `(1).__add__`, which Python 3.13 names nowhere.
PyTypeObject* BoundSlotType();

/// The effect the table has for a name; kRefused for names it lacks.
Effect EffectOfName(std::string_view name);

}  // namespace ingot::client
