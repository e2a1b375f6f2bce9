// SPDX-License-Identifier: Apache-2.0
// Python 3.12 and 3.13: sys.monitoring tells of each instruction of the codes that are observed. The stack pointer is
// not in the frame then: code_table.h says how deep the stack is.
#include <Python.h>

#if PY_VERSION_HEX >= 0x030C0000

#define Py_BUILD_CORE 1
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <opcode.h>

#include <utility>
#include <vector>

#include "client/native/cpython/code_table.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/instruction.h"
#include "client/native/cpython/opcode_table.h"
#include "client/native/cpython/operands.h"
#include "client/native/cpython/python_ref.h"

namespace ingot::client {
namespace {

constexpr bool kIs313 = PY_VERSION_HEX >= 0x030D0000;

// -- opcodes
// -----------------------------------------------------------------------------------------

constexpr OpcodeRow kOwnOpcodes[] = {
    {InstrKind::kHarmless,
     {RESERVED, INTERPRETER_EXIT, RETURN_CONST, LOAD_LOCALS, LOAD_FAST_CHECK, LOAD_FAST_AND_CLEAR}},
    {InstrKind::kHarmless, {END_FOR, END_SEND, CLEANUP_THROW, POP_JUMP_IF_NONE, POP_JUMP_IF_NOT_NONE}},
    // What an intrinsic does, its argument says.
    {InstrKind::kUnsupported, {CALL_INTRINSIC_1, CALL_INTRINSIC_2}},
    {InstrKind::kSubscript, {BINARY_SLICE}},
    {InstrKind::kStoreSubscript, {STORE_SLICE}},
    {InstrKind::kLoadGlobal, {LOAD_FROM_DICT_OR_GLOBALS}},
    {InstrKind::kLoadCell, {LOAD_FROM_DICT_OR_DEREF}},
    {InstrKind::kLoadAttribute, {LOAD_SUPER_ATTR}},
#if PY_VERSION_HEX >= 0x030D0000
    // A branch takes what TO_BOOL left.
    {InstrKind::kHarmless, {UNARY_NOT, POP_JUMP_IF_FALSE, POP_JUMP_IF_TRUE, EXIT_INIT_CHECK, SET_FUNCTION_ATTRIBUTE}},
    {InstrKind::kHarmless, {LOAD_FAST_LOAD_FAST, STORE_FAST_LOAD_FAST, STORE_FAST_STORE_FAST}},
    {InstrKind::kUnsupported, {ENTER_EXECUTOR}},
    {InstrKind::kTruth, {TO_BOOL}},
    {InstrKind::kFormat, {FORMAT_SIMPLE, FORMAT_WITH_SPEC, CONVERT_VALUE}},
    {InstrKind::kCall, {CALL_KW}},
#else
    {InstrKind::kHarmless, {LOAD_CLOSURE, KW_NAMES}},
    {InstrKind::kTruth, {UNARY_NOT, POP_JUMP_IF_FALSE, POP_JUMP_IF_TRUE}},
    {InstrKind::kFormat, {FORMAT_VALUE}},
#endif
};

constexpr OpcodeTable kTable = MakeOpcodeTable(kOwnOpcodes);

InstrKind InstrKindOfIntrinsic(int op, int which) {
  enum { kStopIterationError = 3, kUnaryPositive = 5, kListToTuple = 6, kPrepareReraise = 1 };
  if (op == CALL_INTRINSIC_2) return which == kPrepareReraise ? InstrKind::kHarmless : InstrKind::kUnsupported;
  if (which == kUnaryPositive) return InstrKind::kUnary;
  return which == kStopIterationError || which == kListToTuple ? InstrKind::kHarmless : InstrKind::kUnsupported;
}

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
  void DecodeSuper(const OperandSource& source, Instruction& out);
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

namespace {

void DecodeCallExpanded(const OperandSource& source, Instruction& out) {
  const bool keywords = (source.argument & 1) != 0;
  out.c = keywords ? source.top[-1] : nullptr;
  PyObject** positional = keywords ? source.top - 2 : source.top - 1;
  out.b = *positional;
  out.a = kIs313 ? positional[-2] : positional[-1];
}

}  // namespace

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
  const OperandSource source{CodeOf(frame), frame->f_locals, frame->localsplus, top, argument};
  switch (op) {
    case BINARY_SLICE:
    case STORE_SLICE:
      made = PythonRef(PySlice_New(top[-2], top[-1], nullptr));
      out.a = top[-3];
      out.b = made.get();
      out.c = op == STORE_SLICE ? top[-4] : nullptr;
      break;
    case LOAD_FROM_DICT_OR_GLOBALS:
      out.name = source.name(argument);
      out.a = top[-1];
      break;
    case LOAD_FROM_DICT_OR_DEREF: out.a = frame->localsplus[argument]; break;
    case LOAD_ATTR:
      out.name = source.name(argument >> 1);
      out.a = top[-1];
      break;
    case LOAD_SUPER_ATTR: DecodeSuper(source, out); break;
    case COMPARE_OP:
      out.a = top[-2];
      out.b = top[-1];
      out.operation = argument >> (kIs313 ? 5 : 4);
      break;
    case CALL_INTRINSIC_1:
    case CALL_INTRINSIC_2:
      out.kind = InstrKindOfIntrinsic(op, argument);
      out.a = top[-1];
      break;
    case CALL: DecodeCall(op, argument, top, out); break;
    case CALL_FUNCTION_EX: DecodeCallExpanded(source, out); break;
#if PY_VERSION_HEX >= 0x030D0000
    case CALL_KW: DecodeCall(op, argument, top, out); break;
    case FORMAT_WITH_SPEC: out.a = top[-2]; break;
#else
    case FORMAT_VALUE: out.a = (argument & 4) != 0 ? top[-2] : top[-1]; break;
#endif
    default:
      if (!DecodeCommonOperands(op, source, out)) out.a = top[-1];
      break;
  }
}

/// super(class, self).name in one instruction.
void InstructionTrace::State::DecodeSuper(const OperandSource& source, Instruction& out) {
  PyObject** const top = source.top;
  if (top[-3] != reinterpret_cast<PyObject*>(&PySuper_Type)) {
    out.kind = InstrKind::kUnknown;
    return;
  }
  made = PythonRef(PyObject_CallFunctionObjArgs(top[-3], top[-2], top[-1], nullptr));
  out.name = source.name(source.argument >> 2);
  out.a = made.get();
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
