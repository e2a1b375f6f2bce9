// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>
#include <opcode.h>

#include <array>
#include <initializer_list>
#include <span>

#include "client/native/cpython/instruction.h"

namespace ingot::client {

/// What the instructions of a version of Python do, by opcode.
using OpcodeTable = std::array<InstrKind, 256>;

struct OpcodeRow {
  InstrKind kind;
  std::initializer_list<int> opcodes;
};

/// Of the instructions that every version has.
constexpr OpcodeRow kCommonOpcodes[] = {
    {InstrKind::kHarmless, {CACHE, RESUME, NOP, EXTENDED_ARG}},
    {InstrKind::kHarmless, {POP_TOP, PUSH_NULL, SWAP, COPY, LOAD_CONST}},
    {InstrKind::kHarmless, {LOAD_FAST, STORE_FAST, DELETE_FAST, MAKE_CELL, COPY_FREE_VARS}},
    {InstrKind::kHarmless, {STORE_NAME, DELETE_NAME, SETUP_ANNOTATIONS}},
    {InstrKind::kHarmless, {JUMP_FORWARD, JUMP_BACKWARD, JUMP_BACKWARD_NO_INTERRUPT, RETURN_GENERATOR}},
    {InstrKind::kHarmless, {PUSH_EXC_INFO, POP_EXCEPT, RERAISE, LOAD_ASSERTION_ERROR}},
    {InstrKind::kHarmless, {BUILD_TUPLE, BUILD_LIST, BUILD_STRING, BUILD_SLICE, BUILD_CONST_KEY_MAP, LIST_APPEND}},
    {InstrKind::kUnsupported, {GET_AITER, GET_ANEXT, BEFORE_ASYNC_WITH, END_ASYNC_FOR, GET_AWAITABLE, CHECK_EG_MATCH}},
    // Names, cells and attributes.
    {InstrKind::kLoadGlobal, {LOAD_NAME, LOAD_GLOBAL}},
    {InstrKind::kStoreGlobal, {STORE_GLOBAL}},
    {InstrKind::kDeleteGlobal, {DELETE_GLOBAL}},
    {InstrKind::kLoadCell, {LOAD_DEREF}},
    {InstrKind::kStoreCell, {STORE_DEREF}},
    {InstrKind::kDeleteCell, {DELETE_DEREF}},
    {InstrKind::kLoadAttribute, {LOAD_ATTR}},
    {InstrKind::kStoreAttribute, {STORE_ATTR}},
    {InstrKind::kDeleteAttribute, {DELETE_ATTR}},
    {InstrKind::kImport, {IMPORT_NAME}},
    {InstrKind::kImportFrom, {IMPORT_FROM}},
    // Containers.
    {InstrKind::kSubscript, {BINARY_SUBSCR}},
    {InstrKind::kStoreSubscript, {STORE_SUBSCR}},
    {InstrKind::kDeleteSubscript, {DELETE_SUBSCR}},
    {InstrKind::kContains, {CONTAINS_OP}},
    {InstrKind::kLength, {GET_LEN}},
    {InstrKind::kIterate, {GET_ITER, GET_YIELD_FROM_ITER}},
    {InstrKind::kNext, {SEND, FOR_ITER}},
    {InstrKind::kTakeAll, {UNPACK_SEQUENCE, UNPACK_EX, LIST_EXTEND, SET_UPDATE, DICT_UPDATE, DICT_MERGE}},
    {InstrKind::kHash, {BUILD_SET, BUILD_MAP, SET_ADD, MAP_ADD}},
    // Operators.
    {InstrKind::kUnary, {UNARY_NEGATIVE, UNARY_INVERT}},
    {InstrKind::kBinary, {BINARY_OP}},
    {InstrKind::kCompare, {COMPARE_OP}},
    {InstrKind::kIdentity, {IS_OP}},
    // Statements and calls.
    {InstrKind::kEnter, {BEFORE_WITH}},
    {InstrKind::kExit, {WITH_EXCEPT_START}},
    {InstrKind::kRaise, {RAISE_VARARGS}},
    {InstrKind::kCatch, {CHECK_EXC_MATCH}},
    {InstrKind::kMatchShape, {MATCH_SEQUENCE, MATCH_MAPPING}},
    {InstrKind::kMatchKeys, {MATCH_KEYS}},
    {InstrKind::kMatchClass, {MATCH_CLASS}},
    {InstrKind::kBuildClass, {LOAD_BUILD_CLASS}},
    {InstrKind::kMakeFunction, {MAKE_FUNCTION}},
    {InstrKind::kCall, {CALL}},
    {InstrKind::kCallExpanded, {CALL_FUNCTION_EX}},
    {InstrKind::kReturnOrYield, {RETURN_VALUE, YIELD_VALUE}},
};

/// Those, and the ones that a version has of its own; kUnknown for all others.
constexpr OpcodeTable MakeOpcodeTable(std::span<const OpcodeRow> own) {
  OpcodeTable table{};
  for (const std::span<const OpcodeRow> rows : {std::span<const OpcodeRow>(kCommonOpcodes), own}) {
    for (const OpcodeRow& row : rows) {
      for (const int opcode : row.opcodes) table[opcode] = row.kind;
    }
  }
  return table;
}

}  // namespace ingot::client
