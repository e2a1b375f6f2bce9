// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>

#include "base/result.h"

namespace ingot::client {

/// What an instruction does to objects, the same for every version of Python.
enum class InstrKind : uint8_t {
  kUnknown,   ///< no entry in the version's table: refused
  kHarmless,  ///< touches only the frame's own stack and variables, or builds something new
  kLoadAttribute,
  kStoreAttribute,
  kDeleteAttribute,  ///< a.name; b is the value
  kLoadGlobal,
  kStoreGlobal,
  kDeleteGlobal,  ///< name in the frame's globals; b is the value
  kLoadCell,
  kStoreCell,
  kDeleteCell,  ///< a is the cell; b the value
  kSubscript,
  kStoreSubscript,
  kDeleteSubscript,  ///< a[b]; c is the value
  kContains,         ///< b in a
  kCompare,          ///< a ? b, not identity
  kIdentity,         ///< a is b
  kBinary,           ///< a op b
  kBinaryInPlace,    ///< a op= b, `name` is the method's ("__iadd__")
  kUnary,            ///< op a
  kTruth,            ///< bool(a)
  kLength,           ///< len(a)
  kIterate,          ///< iter(a)
  kTakeAll,          ///< all elements of a: unpacking, extending
  kNext,             ///< next(a)
  kFormat,           ///< format(a)
  kEnter,            ///< enters a as a context
  kRaise,            ///< raises a, an exception or its class
  kCatch,            ///< whether exception a is one of b, a class or a tuple of them
  kMatchShape,       ///< whether a is a sequence or mapping to `match`
  kMatchKeys,        ///< a is the subject, b the tuple of keys
  kMatchClass,       ///< a is the subject, b the class, c the names
  kImport,           ///< name
  kBuildClass,       ///< what makes classes, which a statement finds among the builtins
  kImportFrom,       ///< name of module a
  kUnpackBoundMethod,        ///< a is a bound method, of which kCall sees the parts
  kCall,             ///< a is the callable, args and keyword_names as in vectorcall
  kCallExpanded,     ///< a is the callable, b its tuple of arguments, c its keywords or null
  kExit,             ///< calls a, the exit of a context
  kMakeFunction,     ///< the result is a new function
  kReturnOrYield,  ///< returns or yields a; told where native code takes it, `operation` says how (Taking)
  kHash,  ///< looks at args for whether they are equal: members of a set, keys of a dict
  kUnsupported,  ///< known and never observed: async code
};

/// One instruction that is about to run, with its operands; everything is borrowed and valid only
/// now.
struct Instruction {
  InstrKind kind = InstrKind::kUnknown;
  const char* opcode = "";
  PyCodeObject* code = nullptr;
  int position = 0;  ///< in bytes, for PyCode_Addr2Line
  PyObject* globals = nullptr;  ///< of the frame
  PyObject* builtins = nullptr;
  PyFunctionObject* function = nullptr;
  PyObject* name = nullptr;
  PyObject* a = nullptr;
  PyObject* b = nullptr;
  PyObject* c = nullptr;
  PyObject* const* args = nullptr;
  size_t arg_count = 0;  ///< with those of keywords
  PyObject* keyword_names = nullptr;  ///< a tuple or null
  /// kBinary, kBinaryInPlace: as BINARY_OP counts (kBinaryAdd, ...); kCompare: Py_LT, ...; kUnary: 1
  /// for a minus; kHash: how far keys lie apart in `args`.
  int operation = 0;
  PyObject** top = nullptr;  ///< one past the operands on the stack

  /// kHash: the `depth` operands on top of the stack that hold keys, each `apart` from the next.
  void SetHashed(PyObject** stack_top, int depth, int apart) {
    args = stack_top - depth;
    arg_count = static_cast<size_t>(depth);
    operation = apart;
  }
};

enum BinaryOperation : int {
  kBinaryAdd = 0,
  kBinaryFloorDivide = 2,
  kBinaryLeftShift = 3,
  kBinaryMultiply = 5,
  kBinaryRemainder = 6,
  kBinaryPower = 8,
  kBinaryRightShift = 9,
  kBinarySubtract = 10,
  kBinaryTrueDivide = 11,
};

/// A Python function that begins or goes on to run.
struct EnteredFrame {
  PyCodeObject* code;
  PyFunctionObject* function;
  PyObject* globals;
  PyObject* first;  ///< the first argument, or null
};

/// What native code makes of a value that the Python code which it calls gives back.
enum class ResultUse : uint8_t {
  kNo,  ///< hands it on as it is
  kContent,  ///< looks into it
  kLength,  ///< gives another integer that is equal: `len(o)`
  kTruth,  ///< asks whether it is zero
};

/// Hears of every instruction of the frames it wants to observe, on one thread.
class InstructionListener {
 public:
  /// kObserve: instructions of this frame are told. kSkip: not of this one. kMute: nor of what it
  /// calls.
  enum class FrameMode { kObserve, kSkip, kMute };

  virtual ~InstructionListener() = default;
  virtual FrameMode OnEnter(const EnteredFrame& frame) = 0;
  /// Gives a tag, 0 where the result does not matter.
  virtual int OnInstruction(const Instruction& instruction) = 0;
  /// Of the instruction that was just told.
  virtual ResultUse TakesResults() const = 0;
  /// Whether the instruction that was just told changes something by itself; told then that it has raised instead.
  virtual bool Changes() const = 0;
  virtual void OnRaise() = 0;
  /// What the instruction with this tag has left on the stack, told at the next one of the same
  /// frame; not told for an instruction that raised. A new reference takes its place; null leaves it.
  virtual PyObject* OnResult(int tag, PyObject* result) = 0;
};

/// Shows the instructions of this thread to a listener: how, depends on the version of Python
/// (instruction_311.cpp, ...). Other threads run as ever. Every method needs the GIL.
class InstructionTrace {
 public:
  explicit InstructionTrace(InstructionListener& listener);
  ~InstructionTrace();
  InstructionTrace(const InstructionTrace&) = delete;
  InstructionTrace& operator=(const InstructionTrace&) = delete;

  /// kUnsupported where a debugger or coverage tool traces this thread already.
  Status Start();
  void Stop();
  /// From within the listener: nothing is told any more, and the program finds no trace function.
  void Mute();
  bool running() const;
  /// Instructions seen.
  uint64_t count() const;

  struct State;

 private:
  State* state_;
};

/// What the table of this version says of an opcode, for the test that it is total.
InstrKind InstrKindOf(int opcode);

}  // namespace ingot::client
