// SPDX-License-Identifier: Apache-2.0
// Python 3.12 and 3.13: sys.monitoring tells of each instruction of the codes that are observed.
// The stack pointer is not in the frame then, so how deep the stack is before each instruction is
// computed once for each code.
#include <Python.h>

#if PY_VERSION_HEX >= 0x030C0000

#define Py_BUILD_CORE 1
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <opcode.h>

#include <array>
#include <utility>
#include <vector>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/instruction.h"
#include "client/native/cpython/python_ref.h"

namespace ingot::client {
namespace {

constexpr bool kIs313 = PY_VERSION_HEX >= 0x030D0000;

// -- opcodes
// -----------------------------------------------------------------------------------------

constexpr std::array<InstrKind, 256> MakeTable() {
  std::array<InstrKind, 256> table{};
  for (const int op : {
           CACHE,
           RESERVED,
           RESUME,
           POP_TOP,
           PUSH_NULL,
           NOP,
           INTERPRETER_EXIT,
           END_FOR,
           END_SEND,
           CLEANUP_THROW,
           PUSH_EXC_INFO,
           LOAD_ASSERTION_ERROR,
           LOAD_LOCALS,
           RETURN_GENERATOR,
           RETURN_CONST,
           SETUP_ANNOTATIONS,
           POP_EXCEPT,
           STORE_NAME,
           DELETE_NAME,
           SWAP,
           LOAD_CONST,
           COPY,
           BUILD_TUPLE,
           BUILD_LIST,
           BUILD_STRING,
           BUILD_SLICE,
           BUILD_CONST_KEY_MAP,
           JUMP_FORWARD,
           JUMP_BACKWARD,
           JUMP_BACKWARD_NO_INTERRUPT,
           POP_JUMP_IF_NONE,
           POP_JUMP_IF_NOT_NONE,
           RERAISE,
           COPY_FREE_VARS,
           LOAD_FAST,
           LOAD_FAST_CHECK,
           LOAD_FAST_AND_CLEAR,
           STORE_FAST,
           DELETE_FAST,
           MAKE_CELL,
           LIST_APPEND,
           EXTENDED_ARG,
#if PY_VERSION_HEX >= 0x030D0000
           // A branch takes what TO_BOOL left.
           UNARY_NOT,
           POP_JUMP_IF_FALSE,
           POP_JUMP_IF_TRUE,
           EXIT_INIT_CHECK,
           LOAD_FAST_LOAD_FAST,
           STORE_FAST_LOAD_FAST,
           STORE_FAST_STORE_FAST,
           SET_FUNCTION_ATTRIBUTE,
#else
           LOAD_CLOSURE,
           KW_NAMES,
#endif
       }) {
    table[op] = InstrKind::kHarmless;
  }
  for (const int op : {GET_AITER, GET_ANEXT, BEFORE_ASYNC_WITH, END_ASYNC_FOR, GET_AWAITABLE})
    table[op] = InstrKind::kUnsupported;
  // What an intrinsic does, its argument says.
  for (const int op : {CALL_INTRINSIC_1, CALL_INTRINSIC_2}) table[op] = InstrKind::kUnsupported;
  for (const int op : {UNARY_NEGATIVE, UNARY_INVERT}) table[op] = InstrKind::kUnary;
  for (const int op : {UNPACK_SEQUENCE, UNPACK_EX, LIST_EXTEND, SET_UPDATE, DICT_UPDATE, DICT_MERGE}) {
    table[op] = InstrKind::kTakeAll;
  }
  table[BINARY_SUBSCR] = table[BINARY_SLICE] = InstrKind::kSubscript;
  table[STORE_SUBSCR] = table[STORE_SLICE] = InstrKind::kStoreSubscript;
  table[DELETE_SUBSCR] = InstrKind::kDeleteSubscript;
  table[GET_LEN] = InstrKind::kLength;
  table[MATCH_CLASS] = InstrKind::kMatchClass;
  table[MATCH_KEYS] = InstrKind::kMatchKeys;
  table[WITH_EXCEPT_START] = InstrKind::kExit;
  table[CHECK_EG_MATCH] = InstrKind::kUnsupported;
  table[CHECK_EXC_MATCH] = InstrKind::kCatch;
  table[RAISE_VARARGS] = InstrKind::kRaise;
  table[MATCH_SEQUENCE] = table[MATCH_MAPPING] = InstrKind::kMatchShape;
  table[BEFORE_WITH] = InstrKind::kEnter;
  table[RETURN_VALUE] = table[YIELD_VALUE] = InstrKind::kReturnOrYield;
  table[BUILD_SET] = table[BUILD_MAP] = table[SET_ADD] = table[MAP_ADD] = InstrKind::kHash;
  table[GET_ITER] = table[GET_YIELD_FROM_ITER] = InstrKind::kIterate;
  table[SEND] = table[FOR_ITER] = InstrKind::kNext;
  table[LOAD_NAME] = table[LOAD_GLOBAL] = table[LOAD_FROM_DICT_OR_GLOBALS] = InstrKind::kLoadGlobal;
  table[STORE_GLOBAL] = InstrKind::kStoreGlobal;
  table[DELETE_GLOBAL] = InstrKind::kDeleteGlobal;
  table[LOAD_ATTR] = table[LOAD_SUPER_ATTR] = InstrKind::kLoadAttribute;
  table[STORE_ATTR] = InstrKind::kStoreAttribute;
  table[DELETE_ATTR] = InstrKind::kDeleteAttribute;
  table[COMPARE_OP] = InstrKind::kCompare;
  table[IS_OP] = InstrKind::kIdentity;
  table[CONTAINS_OP] = InstrKind::kContains;
  table[BINARY_OP] = InstrKind::kBinary;
  table[LOAD_DEREF] = table[LOAD_FROM_DICT_OR_DEREF] = InstrKind::kLoadCell;
  table[STORE_DEREF] = InstrKind::kStoreCell;
  table[DELETE_DEREF] = InstrKind::kDeleteCell;
  table[IMPORT_NAME] = InstrKind::kImport;
  table[LOAD_BUILD_CLASS] = InstrKind::kBuildClass;
  table[IMPORT_FROM] = InstrKind::kImportFrom;
  table[CALL] = InstrKind::kCall;
  table[CALL_FUNCTION_EX] = InstrKind::kCallExpanded;
  table[MAKE_FUNCTION] = InstrKind::kMakeFunction;
#if PY_VERSION_HEX >= 0x030D0000
  table[ENTER_EXECUTOR] = InstrKind::kUnsupported;
  table[TO_BOOL] = InstrKind::kTruth;
  table[FORMAT_SIMPLE] = table[FORMAT_WITH_SPEC] = table[CONVERT_VALUE] = InstrKind::kFormat;
  table[CALL_KW] = InstrKind::kCall;
#else
  table[UNARY_NOT] = table[POP_JUMP_IF_FALSE] = table[POP_JUMP_IF_TRUE] = InstrKind::kTruth;
  table[FORMAT_VALUE] = InstrKind::kFormat;
#endif
  return table;
}

constexpr std::array<InstrKind, 256> kTable = MakeTable();

InstrKind InstrKindOfIntrinsic(int op, int which) {
  enum { kStopIterationError = 3, kUnaryPositive = 5, kListToTuple = 6, kPrepareReraise = 1 };
  if (op == CALL_INTRINSIC_2) return which == kPrepareReraise ? InstrKind::kHarmless : InstrKind::kUnsupported;
  if (which == kUnaryPositive) return InstrKind::kUnary;
  return which == kStopIterationError || which == kListToTuple ? InstrKind::kHarmless : InstrKind::kUnsupported;
}

constexpr const char* kInPlace[] = {"__iadd__", "__iand__",     "__ifloordiv__", "__ilshift__", "__imatmul__",
                                    "__imul__", "__imod__",     "__ior__",       "__ipow__",    "__irshift__",
                                    "__isub__", "__itruediv__", "__ixor__"};
constexpr int kFirstInPlace = 13;  // NB_INPLACE_ADD

PyObject* InPlaceName(int operation) {
  const int index = operation - kFirstInPlace;
  if (index < 0 || index >= static_cast<int>(std::size(kInPlace))) return nullptr;
  static std::array<PyObject*, std::size(kInPlace)> names{};
  if (names[index] == nullptr) names[index] = PyUnicode_InternFromString(kInPlace[index]);
  return names[index];
}

// -- code
// --------------------------------------------------------------------------------------------

/// The instructions of one code object by code unit, and how deep the stack is before each.
class CodeTable {
 public:
  struct Entry {
    int depth = -1;  ///< -1 where nothing leads
    int argument = 0;
    uint8_t op = 0;
    bool handles = false;  ///< begins a handler: what ran before it raised
  };

  /// Kept with the code object; null on failure, with a Python error set.
  static const CodeTable* Of(PyCodeObject* code) {
    static const Py_ssize_t slot =
        PyUnstable_Eval_RequestCodeExtraIndex([](void* table) { delete static_cast<CodeTable*>(table); });
    void* found = nullptr;
    auto* object = reinterpret_cast<PyObject*>(code);
    if (slot < 0 || PyUnstable_Code_GetExtra(object, slot, &found) != 0) return nullptr;
    if (found != nullptr) return static_cast<CodeTable*>(found);
    const PythonRef bytes(PyCode_GetCode(code));
    if (!bytes) return nullptr;
    auto* made = new CodeTable(code, bytes.get());
    if (PyUnstable_Code_SetExtra(object, slot, made) == 0) return made;
    delete made;
    return nullptr;
  }

  const Entry* At(int offset) const {
    const size_t unit = static_cast<size_t>(offset) / sizeof(_Py_CODEUNIT);
    return unit < entries_.size() ? &entries_[unit] : nullptr;
  }

 private:
  CodeTable(PyCodeObject* code, PyObject* bytes) : entries_(PyBytes_GET_SIZE(bytes) / sizeof(_Py_CODEUNIT)) {
    const auto* text = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes));
    int argument = 0;
    for (size_t unit = 0; unit < entries_.size(); ++unit) {
      Entry& entry = entries_[unit];
      entry.op = text[2 * unit];
      entry.argument = argument | text[2 * unit + 1];
      argument = entry.op == EXTENDED_ARG ? entry.argument << 8 : 0;
    }
    Reach(0, 0);
    ReadHandlers(code->co_exceptiontable);
    while (!open_.empty()) {
      const size_t unit = open_.back();
      open_.pop_back();
      Follow(unit);
    }
  }

  void Reach(int64_t unit, int depth) {
    if (unit < 0 || unit >= static_cast<int64_t>(entries_.size()) || depth < 0 || entries_[unit].depth >= 0) return;
    entries_[unit].depth = depth;
    open_.push_back(static_cast<size_t>(unit));
  }

  void Follow(size_t unit) {
    const Entry& entry = entries_[unit];
    // Inline caches follow; co_code shows them empty.
    int64_t next = static_cast<int64_t>(unit) + 1;
    while (next < static_cast<int64_t>(entries_.size()) && entries_[next].op == CACHE) ++next;
    const int step = PyCompile_OpcodeStackEffectWithJump(entry.op, entry.argument, 0);
    switch (entry.op) {
      case JUMP_BACKWARD:
      case JUMP_BACKWARD_NO_INTERRUPT: Reach(next - entry.argument, entry.depth); return;
      case JUMP_FORWARD: Reach(next + entry.argument, entry.depth); return;
      // What is sent first lies on the generator's stack; 3.12 does not count it.
      case RETURN_GENERATOR: Reach(next, entry.depth + 1); return;
      case RETURN_VALUE:
      case RETURN_CONST:
      case RAISE_VARARGS:
      case RERAISE:
      case INTERPRETER_EXIT: return;
      case FOR_ITER:
      case SEND:
      case POP_JUMP_IF_FALSE:
      case POP_JUMP_IF_TRUE:
      case POP_JUMP_IF_NONE:
      case POP_JUMP_IF_NOT_NONE:
        Reach(next + entry.argument, entry.depth + PyCompile_OpcodeStackEffectWithJump(entry.op, entry.argument, 1));
        break;
      default: break;
    }
    if (step != PY_INVALID_STACK_EFFECT) Reach(next, entry.depth + step);
  }

  /// The exception table: start, length, target and depth, each in groups of six bits, the highest
  /// first.
  void ReadHandlers(PyObject* table) {
    const auto* at = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(table));
    const uint8_t* const end = at + PyBytes_GET_SIZE(table);
    const auto number = [&] {
      int value = 0;
      bool more = true;
      while (more && at < end) {
        value = value << 6 | (*at & 63);
        more = (*at++ & 64) != 0;
      }
      return value;
    };
    while (at < end) {
      number();
      number();
      const int target = number();
      const int depth_and_lasti = number();
      Reach(target, (depth_and_lasti >> 1) + (depth_and_lasti & 1) + 1);
      if (target < static_cast<int>(entries_.size())) entries_[target].handles = true;
    }
  }

  std::vector<Entry> entries_;
  std::vector<size_t> open_;
};

// -- frames
// ------------------------------------------------------------------------------------------

_PyInterpreterFrame* CurrentFrame() {
#if PY_VERSION_HEX >= 0x030D0000
  return PyThreadState_Get()->current_frame;
#else
  return PyThreadState_Get()->cframe->current_frame;
#endif
}

PyCodeObject* CodeOf(const _PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return reinterpret_cast<PyCodeObject*>(frame->f_executable);
#else
  return frame->f_code;
#endif
}

PyFunctionObject* FunctionOfFrame(const _PyInterpreterFrame* frame) {
  return PyFunction_Check(frame->f_funcobj) ? reinterpret_cast<PyFunctionObject*>(frame->f_funcobj) : nullptr;
}

PyObject* NameAt(PyCodeObject* code, int index) { return PyTuple_GET_ITEM(code->co_names, index); }

}  // namespace

struct InstructionTrace::State {
  struct Open {
    const _PyInterpreterFrame* frame;
    const CodeTable* table;  ///< null where the frame is not observed
    ResultUse gives;                ///< of native code that called it
    ResultUse takes = ResultUse::kNo;  ///< of its instruction
    bool changes = false;  ///< its instruction changes something
    int tag = 0;             ///< of an instruction whose result is waited for
  };

  InstructionListener* listener;
  std::vector<Open> frames;
  const _PyInterpreterFrame* muted = nullptr;
  PyObject* keyword_names = nullptr;
  PythonRef made;  ///< an operand that lies on the stack in parts
  uint64_t count = 0;
  bool running = false;
  bool joined = false;  ///< a user of the tool

  void Enter();
  void Leave();
  void Step(int offset);
  bool Decode(_PyInterpreterFrame* frame, const CodeTable::Entry& entry, Instruction& out);
  void DecodeOperands(_PyInterpreterFrame* frame, int op, int argument, PyObject** top, Instruction& out);
  void DecodeCall(int op, int argument, PyObject** top, Instruction& out);
};

namespace {

thread_local InstructionTrace::State* t_running = nullptr;

// -- sys.monitoring
// ----------------------------------------------------------------------------------

/// Ingot as a tool of sys.monitoring, shared by the traces of all threads: codes that one of them
/// observes are instrumented until none runs. Needs the GIL.
class Tool {
 public:
  static Tool& Get() {
    static Tool* const tool = new Tool;  // Never deleted: Python ends first.
    return *tool;
  }

  Status Join() {
    if (users_ == 0) TRY(Begin());
    ++users_;
    return {};
  }

  void Leave() {
    if (--users_ > 0) return;
    for (const PythonRef& code : codes_) SetLocal(code.get(), 0);
    codes_.clear();
    Drop(Ask("set_events", "ii", id_, 0));
    Drop(Ask("free_tool_id", "i", id_));
  }

  void Observe(PyCodeObject* code) {
    auto* object = reinterpret_cast<PyObject*>(code);
    const PythonRef set(Ask("get_local_events", "iO", id_, object));
    DropError();
    if (set && PyLong_AsLong(set.get()) == events_instruction_) return;
    codes_.push_back(PythonRef::Borrow(object));
    SetLocal(object, events_instruction_);
  }

 private:
  template <class... Args>
  PyObject* Ask(const char* method, const char* format, Args... args) {
    return PyObject_CallMethod(monitoring_.get(), method, format, args...);
  }
  void Drop(PyObject* result) {
    Py_XDECREF(result);
    DropError();
  }
  void SetLocal(PyObject* code, int events) { Drop(Ask("set_local_events", "iOi", id_, code, events)); }

  Status Begin();

  PythonRef monitoring_;
  int id_ = -1;
  int events_instruction_ = 0;
  size_t users_ = 0;
  std::vector<PythonRef> codes_;
};

PyObject* OnEnterEvent(PyObject* /*self*/, PyObject* const* /*args*/, Py_ssize_t /*count*/) {
  if (t_running != nullptr) t_running->Enter();
  Py_RETURN_NONE;
}

PyObject* OnLeaveEvent(PyObject* /*self*/, PyObject* const* /*args*/, Py_ssize_t /*count*/) {
  if (t_running != nullptr) t_running->Leave();
  Py_RETURN_NONE;
}

PyObject* OnInstructionEvent(PyObject* /*self*/, PyObject* const* args, Py_ssize_t /*count*/) {
  if (t_running != nullptr) t_running->Step(static_cast<int>(PyLong_AsLong(args[1])));
  Py_RETURN_NONE;
}

Status Tool::Begin() {
  if (!monitoring_) {
    monitoring_ = PythonRef::Borrow(PySys_GetObject("monitoring"));
    if (!monitoring_) return Error(Code::kUnsupported, "this Python has no sys.monitoring");
  }
  // Of the six tools that can be, debuggers, coverage, profilers and optimizers have their own.
  for (const int id : {4, 3}) {
    const PythonRef taken(Ask("get_tool", "i", id));
    DropError();
    if (taken.get() != Py_None) continue;
    id_ = id;
    Drop(Ask("use_tool_id", "is", id, "ingot"));
    static PyMethodDef enter = {"enter", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&OnEnterEvent)),
                                METH_FASTCALL, nullptr};
    static PyMethodDef leave = {"leave", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&OnLeaveEvent)),
                                METH_FASTCALL, nullptr};
    static PyMethodDef step = {"step", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&OnInstructionEvent)),
                               METH_FASTCALL, nullptr};
    const PythonRef events(PyObject_GetAttrString(monitoring_.get(), "events"));
    int global = 0;
    for (const auto& [name, method] :
         std::initializer_list<std::pair<const char*, PyMethodDef*>>{{"PY_START", &enter},
                                                                     {"PY_RESUME", &enter},
                                                                     {"PY_THROW", &enter},
                                                                     {"PY_RETURN", &leave},
                                                                     {"PY_YIELD", &leave},
                                                                     {"PY_UNWIND", &leave},
                                                                     {"INSTRUCTION", &step}}) {
      const PythonRef event(events ? PyObject_GetAttrString(events.get(), name) : nullptr);
      const PythonRef function(PyCFunction_New(method, nullptr));
      if (!event || !function) break;
      const int bit = static_cast<int>(PyLong_AsLong(event.get()));
      if (method == &step) {
        events_instruction_ = bit;
      } else {
        global |= bit;
      }
      Drop(Ask("register_callback", "iiO", id, bit, function.get()));
    }
    const PythonRef set(Ask("set_events", "ii", id, global));
    if (set) return {};
    DropError();
    return Error(Code::kInternal, "sys.monitoring does not tell of events");
  }
  return Error(Code::kUnsupported, "other tools of sys.monitoring leave no number for Ingot");
}

}  // namespace

void InstructionTrace::State::Enter() {
  if (muted != nullptr) return;
  _PyInterpreterFrame* frame = CurrentFrame();
  PyCodeObject* code = CodeOf(frame);
  PyObject* first = code->co_argcount > 0 ? frame->localsplus[0] : nullptr;
  // An argument that an inner function uses lies in a cell from the start.
  if (first != nullptr && PyCell_Check(first)) first = PyCell_GET(first);
  const auto mode = listener->OnEnter({code, FunctionOfFrame(frame), frame->f_globals, first});
  if (!running) return;
  if (mode == InstructionListener::FrameMode::kMute) {
    muted = frame;
    return;
  }
  const CodeTable* table = nullptr;
  if (mode == InstructionListener::FrameMode::kObserve) {
    table = CodeTable::Of(code);
    DropError();
    Tool::Get().Observe(code);
  }
  frames.push_back({frame, table, frames.empty() ? ResultUse::kNo : frames.back().takes});
}

void InstructionTrace::State::Leave() {
  const _PyInterpreterFrame* frame = CurrentFrame();
  if (muted != nullptr) {
    if (muted == frame) muted = nullptr;
    return;
  }
  // A frame that ran before the trace began is not there.
  if (!frames.empty() && frames.back().frame == frame) frames.pop_back();
}

void InstructionTrace::State::DecodeCall(int op, int argument, PyObject** top, Instruction& out) {
  out.keyword_names = std::exchange(keyword_names, nullptr);
#if PY_VERSION_HEX >= 0x030D0000
  if (op == CALL_KW) out.keyword_names = *--top;
  PyObject** below = top - argument;
  const bool is_method = below[-1] != nullptr;
  out.a = below[-2];
#else
  (void)op;
  PyObject** below = top - argument;
  const bool is_method = below[-2] != nullptr;
  out.a = is_method ? below[-2] : below[-1];
#endif
  out.args = is_method ? below - 1 : below;
  out.arg_count = static_cast<size_t>(argument) + (is_method ? 1 : 0);
}

void InstructionTrace::State::DecodeOperands(_PyInterpreterFrame* frame, int op, int argument, PyObject** top,
                                             Instruction& out) {
  PyCodeObject* code = CodeOf(frame);
  switch (op) {
    case BINARY_SUBSCR:
    case DELETE_SUBSCR:
      out.a = top[-2];
      out.b = top[-1];
      break;
    case STORE_SUBSCR:
      out.a = top[-2];
      out.b = top[-1];
      out.c = top[-3];
      break;
    case BINARY_SLICE:
    case STORE_SLICE:
      made = PythonRef(PySlice_New(top[-2], top[-1], nullptr));
      out.a = top[-3];
      out.b = made.get();
      out.c = op == STORE_SLICE ? top[-4] : nullptr;
      break;
    case MATCH_CLASS:
      out.a = top[-3];
      out.b = top[-2];
      out.c = top[-1];
      break;
    case MATCH_KEYS:
      out.a = top[-2];
      out.b = top[-1];
      break;
    case WITH_EXCEPT_START: out.a = top[-4]; break;
    case SEND: out.a = top[-2]; break;
    case LOAD_NAME:
      out.name = NameAt(code, argument);
      out.a = frame->f_locals;
      break;
    case LOAD_FROM_DICT_OR_GLOBALS:
      out.name = NameAt(code, argument);
      out.a = top[-1];
      break;
    case LOAD_GLOBAL: out.name = NameAt(code, argument >> 1); break;
    case STORE_GLOBAL:
      out.name = NameAt(code, argument);
      out.b = top[-1];
      break;
    case DELETE_GLOBAL:
    case IMPORT_NAME: out.name = NameAt(code, argument); break;
    case LOAD_ATTR:
      out.name = NameAt(code, argument >> 1);
      out.a = top[-1];
      break;
    case LOAD_SUPER_ATTR:
      // super(class, self).name in one instruction.
      if (top[-3] != reinterpret_cast<PyObject*>(&PySuper_Type)) {
        out.kind = InstrKind::kUnknown;
        break;
      }
      made = PythonRef(PyObject_CallFunctionObjArgs(top[-3], top[-2], top[-1], nullptr));
      out.name = NameAt(code, argument >> 2);
      out.a = made.get();
      break;
    case DELETE_ATTR:
    case IMPORT_FROM:
      out.name = NameAt(code, argument);
      out.a = top[-1];
      break;
    case STORE_ATTR:
      out.name = NameAt(code, argument);
      out.a = top[-1];
      out.b = top[-2];
      break;
    case MATCH_SEQUENCE:
    case MATCH_MAPPING: out.a = top[-1]; break;
    case RAISE_VARARGS: out.a = argument > 0 ? top[-argument] : nullptr; break;
    case CHECK_EXC_MATCH:
    case COMPARE_OP:
    case IS_OP:
      out.a = top[-2];
      out.b = top[-1];
      out.operation = op == COMPARE_OP ? argument >> (kIs313 ? 5 : 4) : 0;
      break;
    case UNARY_NEGATIVE:
      out.a = top[-1];
      out.operation = 1;
      break;
    case BUILD_SET: out.SetHashed(top, argument, 1); break;
    case BUILD_MAP: out.SetHashed(top, 2 * argument, 2); break;
    case SET_ADD: out.SetHashed(top, 1, 1); break;
    case MAP_ADD: out.SetHashed(top, 2, 2); break;
    case CONTAINS_OP:
      out.a = top[-1];
      out.b = top[-2];
      break;
    case BINARY_OP:
      out.a = top[-2];
      out.b = top[-1];
      out.name = InPlaceName(argument);
      out.operation = argument >= kFirstInPlace ? argument - kFirstInPlace : argument;
      if (out.name != nullptr) out.kind = InstrKind::kBinaryInPlace;
      break;
    case LOAD_DEREF:
    case LOAD_FROM_DICT_OR_DEREF:
    case DELETE_DEREF: out.a = frame->localsplus[argument]; break;
    case STORE_DEREF:
      out.a = frame->localsplus[argument];
      out.b = top[-1];
      break;
    case CALL_INTRINSIC_1:
    case CALL_INTRINSIC_2:
      out.kind = InstrKindOfIntrinsic(op, argument);
      out.a = top[-1];
      break;
    case CALL: DecodeCall(op, argument, top, out); break;
    case CALL_FUNCTION_EX: {
      const bool keywords = (argument & 1) != 0;
      out.c = keywords ? top[-1] : nullptr;
      PyObject** positional = keywords ? top - 2 : top - 1;
      out.b = *positional;
      out.a = kIs313 ? positional[-2] : positional[-1];
      break;
    }
    case LOAD_BUILD_CLASS:
    case MAKE_FUNCTION: break;
#if PY_VERSION_HEX >= 0x030D0000
    case CALL_KW: DecodeCall(op, argument, top, out); break;
    case FORMAT_WITH_SPEC: out.a = top[-2]; break;
#else
    case FORMAT_VALUE: out.a = (argument & 4) != 0 ? top[-2] : top[-1]; break;
#endif
    default: out.a = top[-1]; break;
  }
}

/// False for an instruction that nobody needs to hear of.
bool InstructionTrace::State::Decode(_PyInterpreterFrame* frame, const CodeTable::Entry& entry, Instruction& out) {
#if PY_VERSION_HEX < 0x030D0000
  if (entry.op == KW_NAMES) keyword_names = PyTuple_GET_ITEM(CodeOf(frame)->co_consts, entry.argument);
#endif
  out.kind = entry.depth < 0 ? InstrKind::kUnknown : kTable[entry.op];
  if (out.kind == InstrKind::kHarmless) return false;
  PyObject** top = frame->localsplus + CodeOf(frame)->co_nlocalsplus + entry.depth;
  if (out.kind == InstrKind::kTruth && (top[-1] == Py_True || top[-1] == Py_False || top[-1] == Py_None)) return false;
  out.code = CodeOf(frame);
  out.globals = frame->f_globals;
  out.builtins = frame->f_builtins;
  out.function = FunctionOfFrame(frame);
  made = PythonRef();
  out.top = top;
  if (out.kind != InstrKind::kUnknown) DecodeOperands(frame, entry.op, entry.argument, top, out);
  if (PyErr_Occurred() != nullptr) {
    // super() or a slice that cannot be made: the instruction raises the same.
    DropError();
    return false;
  }
  return out.kind != InstrKind::kHarmless;
}

void InstructionTrace::State::Step(int offset) {
  if (muted != nullptr || frames.empty()) return;
  ++count;
  _PyInterpreterFrame* frame = CurrentFrame();
  Open& open = frames.back();
  if (open.frame != frame || open.table == nullptr) return;
  const CodeTable::Entry* entry = open.table->At(offset);
  if (entry == nullptr) return;
  if (std::exchange(open.changes, false) && entry->handles) listener->OnRaise();
  if (const int tag = std::exchange(open.tag, 0); tag != 0 && !entry->handles && entry->depth > 0) {
    PyObject*& slot = frame->localsplus[CodeOf(frame)->co_nlocalsplus + entry->depth - 1];
    if (PyObject* other = listener->OnResult(tag, slot)) Py_SETREF(slot, other);
    if (!running) return;
  }
  Instruction instruction;
  instruction.position = offset;
  if (!Decode(frame, *entry, instruction)) return;
  if (instruction.kind == InstrKind::kReturnOrYield) {
    if (open.gives == ResultUse::kNo) return;
    instruction.operation = static_cast<int>(open.gives);
  }
  const int tag = listener->OnInstruction(instruction);
  if (!running || frames.empty() || frames.back().frame != frame) return;
  frames.back().tag = tag;
  frames.back().takes = listener->TakesResults();
  frames.back().changes = listener->Changes();
}

InstructionTrace::InstructionTrace(InstructionListener& listener) : state_(new State) { state_->listener = &listener; }

InstructionTrace::~InstructionTrace() {
  Stop();
  delete state_;
}

Status InstructionTrace::Start() {
  if (t_running != nullptr || PyThreadState_Get()->c_tracefunc != nullptr) {
    return Error(Code::kUnsupported, "a debugger or coverage tool traces this thread");
  }
  TRY(Tool::Get().Join());
  state_->joined = state_->running = true;
  t_running = state_;
  return {};
}

void InstructionTrace::Stop() {
  Mute();
  if (std::exchange(state_->joined, false)) Tool::Get().Leave();
}

void InstructionTrace::Mute() {
  state_->running = false;
  if (t_running == state_) t_running = nullptr;
}

bool InstructionTrace::running() const { return state_->running; }
uint64_t InstructionTrace::count() const { return state_->count; }

InstrKind InstrKindOf(int opcode) { return opcode >= 0 && opcode < 256 ? kTable[opcode] : InstrKind::kUnknown; }

}  // namespace ingot::client

#endif
