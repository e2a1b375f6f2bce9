// SPDX-License-Identifier: Apache-2.0
// Code says in a table which of its instructions lead where when something is raised (CPython's
// Objects/exception_handling_notes.txt).
#include "client/native/cpython/exception_handlers.h"

#include <Python.h>

#define Py_BUILD_CORE 1
#include <frameobject.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <opcode.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/cpython/user_line.h"

namespace ingot::client {
namespace {

/// Where an instruction leads to, in bytes of code, with as many values left on the stack.
struct Target {
  int offset = 0;
  int depth = 0;
};

class TableReader {
 public:
  explicit TableReader(std::string_view bytes) : bytes_(bytes) {}
  bool AtEnd() const { return at_ >= bytes_.size(); }
  /// Six bits a byte, the highest first.
  int Read() {
    int value = 0;
    while (!AtEnd()) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value = value << 6 | (byte & 63);
      if ((byte & 64) == 0) break;
    }
    return value;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

std::string_view BytesOf(PyObject* bytes) {
  if (bytes == nullptr || !PyBytes_Check(bytes)) return {};
  return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

std::optional<Target> TargetOf(PyCodeObject* code, int offset) {
  constexpr int kUnit = sizeof(_Py_CODEUNIT);
  for (TableReader table(BytesOf(code->co_exceptiontable)); !table.AtEnd();) {
    const int start = table.Read() * kUnit, length = table.Read() * kUnit;
    const int target = table.Read() * kUnit, depth = table.Read() >> 1;
    if (offset >= start && offset < start + length) return Target{target, depth};
  }
  return std::nullopt;
}

/// What only ends a frame that an exception leaves.
bool OnlyTidiesUp(int op) {
  switch (op) {
    case CACHE:
    case EXTENDED_ARG:
    case NOP:
    case RESUME:
    case PUSH_EXC_INFO:
    case COPY:
    case SWAP:
    case POP_TOP:
    case POP_EXCEPT:
    case LOAD_CONST:
    case LOAD_FAST:
    case STORE_FAST:
    case DELETE_FAST:
#if PY_VERSION_HEX >= 0x030C0000
    case CALL_INTRINSIC_1:  // That a generator ended by StopIteration.
#endif
#if PY_VERSION_HEX >= 0x030D0000
    case STORE_FAST_STORE_FAST:
    case STORE_FAST_LOAD_FAST:
    case LOAD_FAST_LOAD_FAST:
#endif
      return true;
    default: return false;
  }
}

/// Python code of PyTorch's that `contextlib` runs in two halves.
bool IsMadeByTorch(PyObject* manager) {
  const std::string_view name = QualnameOf(Py_TYPE(manager));
  if (ModuleOf(Py_TYPE(manager)) != "contextlib") return false;
  if (name == "nullcontext") return true;
  if (name != "_GeneratorContextManager") return false;
  static PyObject* const gen = PyUnicode_InternFromString("gen");
  const PythonRef generator(PyObject_GenericGetAttr(manager, gen));
  if (!generator) DropError();
  if (!generator || !PyGen_CheckExact(generator.get())) return false;
  const PythonRef code(PyObject_GetAttrString(generator.get(), "gi_code"));
  if (!code) DropError();
  return code && LiesIn("torch", ViewOf(reinterpret_cast<PyCodeObject*>(code.get())->co_filename));
}

/// Whether leaving a `with` by its `exit` does nothing that a call misses which ends without it: it sets back what
/// the call had set, or gives back what it had taken.
bool OnlySetsBack(PyObject* exit) {
  PyObject* self = PyMethod_Check(exit)      ? PyMethod_GET_SELF(exit)
                   : PyCFunction_Check(exit) ? PyCFunction_GET_SELF(exit)
                                             : nullptr;
  if (self == nullptr) return false;
  const std::string_view module = ModuleOf(Py_TYPE(self));
  return IsTorchName(module) || module == "_thread" || IsMadeByTorch(self);
}

PyObject* OnStack(PyFrameObject* frame, PyCodeObject* code, int depth) {
  return depth <= 0 ? nullptr : frame->f_frame->localsplus[code->co_nlocalsplus + depth - 1];
}

PyObject* FirstArgument(PyFrameObject* frame, PyCodeObject* code) {
  PyObject* value = code->co_argcount == 0 ? nullptr : frame->f_frame->localsplus[0];
  return value != nullptr && PyCell_Check(value) ? PyCell_GET(value) : value;
}

/// Where a module with hooks is called: only those that are always called hear of an exception.
bool IsCallOfModule(PyFrameObject* frame, PyCodeObject* code) {
  if (ViewOf(code->co_qualname) != "Module._call_impl" || !LiesIn("torch", ViewOf(code->co_filename))) return false;
  PyObject* module = FirstArgument(frame, code);
  const auto is_empty = [](PyObject* dict) {
    return dict != nullptr && PyDict_Check(dict) && PyDict_GET_SIZE(dict) == 0;
  };
  static PyObject* const hooks = PyUnicode_InternFromString("_forward_hooks_always_called");
  PyObject* const dict = module == nullptr ? nullptr : PyObject_GenericGetDict(module, nullptr);
  if (dict == nullptr) DropError();
  const PythonRef held(dict);
  return dict != nullptr && is_empty(PyDict_GetItem(dict, hooks)) &&
         is_empty(LoadedAttribute("torch.nn.modules.module", "_global_forward_hooks_always_called"));
}

/// Where the first handler begins that does more than tidy up, by which an exception at `offset` leaves the frame.
std::optional<int> HandlerIn(PyFrameObject* frame, PyCodeObject* code, int offset) {
  const PythonRef bytes(PyCode_GetCode(code));
  if (!bytes) DropError();
  const std::string_view text = BytesOf(bytes.get());
  while (const auto target = TargetOf(code, offset)) {
    int at = target->offset;
    const auto op_at = [&text](int where) { return static_cast<unsigned char>(text[static_cast<size_t>(where)]); };
    const auto end = static_cast<int>(text.size());
    bool is_harmless = true;
    for (; is_harmless && at < end && op_at(at) != RERAISE; at += sizeof(_Py_CODEUNIT)) {
      if (op_at(at) == WITH_EXCEPT_START) {
        PyObject* exit = OnStack(frame, code, target->depth);
        is_harmless = exit != nullptr && OnlySetsBack(exit);
        while (is_harmless && at < end && op_at(at) != RERAISE) at += sizeof(_Py_CODEUNIT);
        break;
      }
      is_harmless = OnlyTidiesUp(op_at(at));
    }
    // What does not go forwards would not end.
    if (!is_harmless || at >= end || at <= offset) return target->offset;
    offset = at;
  }
  return std::nullopt;
}

}  // namespace

std::string HandlerInside(const PyFrameObject* outermost) {
  PythonRef frame = PythonRef::Borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame && frame.get() != reinterpret_cast<const PyObject*>(outermost)) {
    auto* const at = reinterpret_cast<PyFrameObject*>(frame.get());
    const PythonRef code_ref(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    auto* const code = reinterpret_cast<PyCodeObject*>(code_ref.get());
    if (const auto handler = HandlerIn(at, code, PyFrame_GetLasti(at))) {
      if (IsCallOfModule(at, code)) {
        frame = PythonRef(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
        continue;
      }
      // The first instruction of a handler is of no line.
      const int lines[] = {PyCode_Addr2Line(code, *handler), PyCode_Addr2Line(code, *handler + sizeof(_Py_CODEUNIT))};
      const std::string_view file = ViewOf(code->co_filename);
      return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(std::max(lines[0], lines[1]));
    }
    frame = PythonRef(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return {};
}

}  // namespace ingot::client
