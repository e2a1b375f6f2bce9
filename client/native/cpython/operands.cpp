// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/operands.h"

#include <opcode.h>

#include <array>

namespace ingot::client {
namespace {

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

bool DecodeName(int opcode, const OperandSource& source, Instruction& out) {
  switch (opcode) {
    case LOAD_NAME: out.a = source.locals; break;
    case LOAD_GLOBAL: out.name = source.name(source.argument >> 1); return true;
    case STORE_GLOBAL: out.b = source.top[-1]; break;
    case DELETE_GLOBAL:
    case IMPORT_NAME: break;
    case DELETE_ATTR:
    case IMPORT_FROM: out.a = source.top[-1]; break;
    case STORE_ATTR:
      out.a = source.top[-1];
      out.b = source.top[-2];
      break;
    default: return false;
  }
  out.name = source.name(source.argument);
  return true;
}

bool DecodeCell(int opcode, const OperandSource& source, Instruction& out) {
  switch (opcode) {
    case LOAD_DEREF:
    case DELETE_DEREF: break;
    case STORE_DEREF: out.b = source.top[-1]; break;
    default: return false;
  }
  out.a = source.variables[source.argument];
  return true;
}

bool DecodeHashed(int opcode, const OperandSource& source, Instruction& out) {
  switch (opcode) {
    case BUILD_SET: out.SetHashed(source.top, source.argument, 1); return true;
    case BUILD_MAP: out.SetHashed(source.top, 2 * source.argument, 2); return true;
    case SET_ADD: out.SetHashed(source.top, 1, 1); return true;
    case MAP_ADD: out.SetHashed(source.top, 2, 2); return true;
    default: return false;
  }
}

bool DecodeOperator(int opcode, const OperandSource& source, Instruction& out) {
  PyObject** const top = source.top;
  switch (opcode) {
    case UNARY_NEGATIVE:
      out.a = top[-1];
      out.operation = 1;
      return true;
    case BINARY_OP:
      out.a = top[-2];
      out.b = top[-1];
      out.name = InPlaceName(source.argument);
      out.operation = source.argument >= kFirstInPlace ? source.argument - kFirstInPlace : source.argument;
      if (out.name != nullptr) out.kind = InstrKind::kBinaryInPlace;
      return true;
    case CONTAINS_OP:
      out.a = top[-1];
      out.b = top[-2];
      return true;
    case IS_OP:
    case CHECK_EXC_MATCH:
    case BINARY_SUBSCR:
    case DELETE_SUBSCR:
      out.a = top[-2];
      out.b = top[-1];
      return true;
    case STORE_SUBSCR:
      out.a = top[-2];
      out.b = top[-1];
      out.c = top[-3];
      return true;
    default: return false;
  }
}

bool DecodeStatement(int opcode, const OperandSource& source, Instruction& out) {
  PyObject** const top = source.top;
  switch (opcode) {
    case MATCH_CLASS:
      out.a = top[-3];
      out.b = top[-2];
      out.c = top[-1];
      return true;
    case MATCH_KEYS:
      out.a = top[-2];
      out.b = top[-1];
      return true;
    case WITH_EXCEPT_START: out.a = top[-4]; return true;
    case SEND: out.a = top[-2]; return true;
    case RAISE_VARARGS: out.a = source.argument > 0 ? top[-source.argument] : nullptr; return true;
    case LOAD_BUILD_CLASS:
    case MAKE_FUNCTION: return true;
    default: return false;
  }
}

}  // namespace

bool DecodeCommonOperands(int opcode, const OperandSource& source, Instruction& out) {
  return DecodeName(opcode, source, out) || DecodeCell(opcode, source, out) || DecodeHashed(opcode, source, out) ||
         DecodeOperator(opcode, source, out) || DecodeStatement(opcode, source, out);
}

}  // namespace ingot::client
