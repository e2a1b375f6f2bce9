// SPDX-License-Identifier: Apache-2.0
// Python 3.11: a trace function that asks for every opcode; the operands lie on the frame's stack.
#include <Python.h>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

#define Py_BUILD_CORE 1
#include <frameobject.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <opcode.h>

#include <utility>
#include <vector>

#include "client/native/cpython/instruction.h"
#include "client/native/cpython/opcode_table.h"
#include "client/native/cpython/operands.h"

/// What a specialised instruction was before (opcode_tables.c).
extern "C" const unsigned char* ingot_general_opcodes(void);

namespace ingot::client {
namespace {

const unsigned char* const kGeneral = ingot_general_opcodes();

constexpr OpcodeRow kOwnOpcodes[] = {
    {InstrKind::kHarmless, {LIST_TO_TUPLE, LOAD_CLOSURE, KW_NAMES, PREP_RERAISE_STAR}},
    {InstrKind::kHarmless, {POP_JUMP_FORWARD_IF_NONE, POP_JUMP_FORWARD_IF_NOT_NONE}},
    {InstrKind::kHarmless, {POP_JUMP_BACKWARD_IF_NONE, POP_JUMP_BACKWARD_IF_NOT_NONE}},
    {InstrKind::kUnsupported, {ASYNC_GEN_WRAP, PRINT_EXPR, IMPORT_STAR}},
    {InstrKind::kUnary, {UNARY_POSITIVE}},
    {InstrKind::kTruth, {UNARY_NOT, JUMP_IF_FALSE_OR_POP, JUMP_IF_TRUE_OR_POP}},
    {InstrKind::kTruth, {POP_JUMP_FORWARD_IF_FALSE, POP_JUMP_FORWARD_IF_TRUE}},
    {InstrKind::kTruth, {POP_JUMP_BACKWARD_IF_FALSE, POP_JUMP_BACKWARD_IF_TRUE}},
    {InstrKind::kLoadAttribute, {LOAD_METHOD}},
    {InstrKind::kLoadCell, {LOAD_CLASSDEREF}},
    {InstrKind::kFormat, {FORMAT_VALUE}},
    {InstrKind::kUnpackBoundMethod, {PRECALL}},
};

constexpr OpcodeTable kTable = MakeOpcodeTable(kOwnOpcodes);

}  // namespace

struct InstructionTrace::State {
  struct Open {
    const _PyInterpreterFrame* frame;
    bool observed;
    ResultUse gives;                 ///< of native code that called it
    ResultUse takes = ResultUse::kNo;   ///< of its instruction
    bool changes = false;  ///< its instruction changes something
    int tag = 0;         ///< of an instruction whose result is waited for
  };

  InstructionListener* listener;
  PyObject* self = nullptr;  ///< capsule handed to CPython
  std::vector<Open> frames;
  size_t muted = 0;  ///< open frames since one that is muted
  PyObject* keyword_names = nullptr;
  uint64_t count = 0;
  bool running = false;

  void Enter(PyFrameObject* object);
  void Leave();
  void Step(PyFrameObject* object);
  bool Decode(_PyInterpreterFrame* frame, Instruction& out);
  void DecodeOperands(_PyInterpreterFrame* frame, int op, int oparg, PyObject** top, Instruction& out);
  void DecodeCall(int oparg, PyObject** top, Instruction& out);
};

void InstructionTrace::State::Enter(PyFrameObject* object) {
  object->f_trace_lines = 0;
  object->f_trace_opcodes = 0;
  _PyInterpreterFrame* frame = object->f_frame;
  if (muted > 0) {
    ++muted;
    return;
  }
  PyCodeObject* code = frame->f_code;
  PyObject* first = code->co_argcount + code->co_posonlyargcount > 0 ? frame->localsplus[0] : nullptr;
  // An argument that an inner function uses lies in a cell from the start.
  if (first != nullptr && PyCell_Check(first)) first = PyCell_GET(first);
  const auto mode = listener->OnEnter({code, frame->f_func, frame->f_globals, first});
  if (mode == InstructionListener::FrameMode::kMute) {
    muted = 1;
    return;
  }
  const ResultUse gives = frames.empty() ? ResultUse::kNo : frames.back().takes;
  frames.push_back({frame, mode == InstructionListener::FrameMode::kObserve, gives});
  object->f_trace_opcodes = frames.back().observed ? 1 : 0;
}

void InstructionTrace::State::Leave() {
  if (muted > 0) {
    --muted;
  } else if (!frames.empty()) {
    frames.pop_back();
  }
}

void InstructionTrace::State::DecodeCall(int oparg, PyObject** top, Instruction& out) {
  out.keyword_names = keyword_names;
  keyword_names = nullptr;
  PyObject** below = top - oparg;
  const bool is_method = below[-2] != nullptr;
  out.a = is_method ? below[-2] : below[-1];
  out.args = is_method ? below - 1 : below;
  out.arg_count = static_cast<size_t>(oparg) + (is_method ? 1 : 0);
}

void InstructionTrace::State::DecodeOperands(_PyInterpreterFrame* frame, int op, int oparg, PyObject** top,
                                             Instruction& out) {
  const OperandSource source{frame->f_code, frame->f_locals, frame->localsplus, top, oparg};
  switch (op) {
    case LOAD_ATTR:
    case LOAD_METHOD:
      out.name = source.name(oparg);
      out.a = top[-1];
      break;
    case LOAD_CLASSDEREF: out.a = frame->localsplus[oparg]; break;
    case COMPARE_OP:
      out.a = top[-2];
      out.b = top[-1];
      out.operation = oparg;
      break;
    case FORMAT_VALUE: out.a = (oparg & 4) != 0 ? top[-2] : top[-1]; break;
    case PRECALL:
      out.a = top[-oparg - 2] == nullptr ? top[-oparg - 1] : nullptr;
      if (out.a == nullptr || !PyMethod_Check(out.a)) out.kind = InstrKind::kHarmless;
      break;
    case CALL: DecodeCall(oparg, top, out); break;
    case CALL_FUNCTION_EX:
      out.c = (oparg & 1) != 0 ? top[-1] : nullptr;
      out.b = (oparg & 1) != 0 ? top[-2] : top[-1];
      out.a = (oparg & 1) != 0 ? top[-3] : top[-2];
      break;
    default:
      if (!DecodeCommonOperands(op, source, out)) out.a = top[-1];
      break;
  }
}

/// False for an instruction that nobody needs to hear of.
bool InstructionTrace::State::Decode(_PyInterpreterFrame* frame, Instruction& out) {
  const _Py_CODEUNIT* at = frame->prev_instr;
  int op = kGeneral[_Py_OPCODE(*at)];
  int oparg = _Py_OPARG(*at);
  while (op == EXTENDED_ARG) {
    ++at;
    op = kGeneral[_Py_OPCODE(*at)];
    oparg = oparg << 8 | _Py_OPARG(*at);
  }
  if (op == KW_NAMES) keyword_names = PyTuple_GET_ITEM(frame->f_code->co_consts, oparg);
  out.kind = kTable[op];
  if (out.kind == InstrKind::kHarmless) return false;
  PyObject** top = frame->localsplus + frame->stacktop;
  if (out.kind == InstrKind::kTruth && (top[-1] == Py_True || top[-1] == Py_False || top[-1] == Py_None)) return false;
  out.code = frame->f_code;
  out.position = static_cast<int>(at - _PyCode_CODE(frame->f_code)) * static_cast<int>(sizeof(_Py_CODEUNIT));
  out.globals = frame->f_globals;
  out.builtins = frame->f_builtins;
  out.function = frame->f_func;
  out.top = top;
  DecodeOperands(frame, op, oparg, top, out);
  return out.kind != InstrKind::kHarmless;
}

void InstructionTrace::State::Step(PyFrameObject* object) {
  if (muted > 0 || frames.empty()) return;
  ++count;
  _PyInterpreterFrame* frame = object->f_frame;
  Open& open = frames.back();
  if (open.frame != frame || !open.observed) return;
  open.changes = false;
  if (const int tag = std::exchange(open.tag, 0); tag != 0) {
    PyObject*& slot = frame->localsplus[frame->stacktop - 1];
    if (PyObject* other = listener->OnResult(tag, slot)) Py_SETREF(slot, other);
    if (!running) return;
  }
  Instruction instruction;
  if (!Decode(frame, instruction)) return;
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

namespace {

int OnEvent(PyObject* self, PyFrameObject* frame, int what, PyObject* /*argument*/) {
  auto* state = static_cast<InstructionTrace::State*>(PyCapsule_GetPointer(self, "ingot.InstructionTrace"));
  if (!state->running) return 0;
  switch (what) {
    case PyTrace_OPCODE: state->Step(frame); break;
    case PyTrace_CALL: state->Enter(frame); break;
    case PyTrace_RETURN: state->Leave(); break;
    case PyTrace_EXCEPTION:
      if (state->frames.empty()) break;
      state->frames.back().tag = 0;
      if (std::exchange(state->frames.back().changes, false)) state->listener->OnRaise();
      break;
    default: break;
  }
  return 0;
}

}  // namespace

InstructionTrace::InstructionTrace(InstructionListener& listener) : state_(new State) {
  state_->listener = &listener;
  state_->self = PyCapsule_New(state_, "ingot.InstructionTrace", nullptr);
}

InstructionTrace::~InstructionTrace() {
  Stop();
  Py_XDECREF(state_->self);
  delete state_;
}

Status InstructionTrace::Start() {
  if (PyThreadState_Get()->c_tracefunc != nullptr) {
    return Error(Code::kUnsupported, "a debugger or coverage tool traces this thread");
  }
  state_->running = true;
  PyEval_SetTrace(&OnEvent, state_->self);
  return {};
}

void InstructionTrace::Stop() {
  if (!state_->running) return;
  state_->running = false;
  if (PyThreadState_Get()->c_tracefunc == &OnEvent) PyEval_SetTrace(nullptr, nullptr);
}

void InstructionTrace::Mute() { Stop(); }

bool InstructionTrace::running() const { return state_->running; }
uint64_t InstructionTrace::count() const { return state_->count; }

InstrKind InstrKindOf(int opcode) { return opcode >= 0 && opcode < 256 ? kTable[opcode] : InstrKind::kUnknown; }

}  // namespace ingot::client

#endif
