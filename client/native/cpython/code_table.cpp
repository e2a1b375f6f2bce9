// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/code_table.h"

#if PY_VERSION_HEX >= 0x030C0000

#define Py_BUILD_CORE 1
#include <internal/pycore_code.h>
#undef Py_BUILD_CORE
#include <opcode.h>

#include "client/native/cpython/python_ref.h"

namespace ingot::client {

const CodeTable* CodeTable::Of(PyCodeObject* code) {
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

const CodeTable::Entry* CodeTable::At(int offset) const {
  const size_t unit = static_cast<size_t>(offset) / sizeof(_Py_CODEUNIT);
  return unit < entries_.size() ? &entries_[unit] : nullptr;
}

CodeTable::CodeTable(PyCodeObject* code, PyObject* bytes) : entries_(PyBytes_GET_SIZE(bytes) / sizeof(_Py_CODEUNIT)) {
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

void CodeTable::Reach(int64_t unit, int depth) {
  if (unit < 0 || unit >= static_cast<int64_t>(entries_.size()) || depth < 0 || entries_[unit].depth >= 0) return;
  entries_[unit].depth = depth;
  open_.push_back(static_cast<size_t>(unit));
}

void CodeTable::Follow(size_t unit) {
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
void CodeTable::ReadHandlers(PyObject* table) {
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

}  // namespace ingot::client

#endif
