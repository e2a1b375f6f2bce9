// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "guards/dim.h"
#include "guards/dtype.h"

namespace ingot::compiler::loop {

using guards::Dim;
using guards::Dims;
using guards::DType;

/// Scalar operations of a kernel body. Arithmetic on f16/bf16 never happens: values are cast to
/// f32 after a load and back before a store. Comparisons and logic give bool.
enum class ScalarOp : uint8_t {
  kConst,   ///< immediate: `imm_f` for floats, `imm_i` for integers and bool
  kSize,    ///< value of a Dim (i64), constant over the kernel
  kIndex,   ///< value of an affine index expression (i64)
  kLoad,
  kStore,
  kCast,    ///< torch semantics: float->int truncates, ->bool is != 0
  kAdd,
  kSub,
  kMul,
  kDiv /* true division; integers: trunc */,
  kFloorDiv,
  kRem /* python modulo */,
  kMin,
  kMax /* NaN propagates */,
  kPow,
  kAtan2,
  kFma,
  kNeg,
  kAbs,
  kSign,
  kSqrt,
  kRsqrt,
  kRecip,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kLog2,
  kSin,
  kCos,
  kTanh,
  kErf,
  kSigmoid,
  kFloor,
  kCeil,
  kRound /* half to even */,
  kTrunc,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kXor,
  kNot,
  kShl,
  kShr,
  kIsNan,
  kSelect,  ///< a ? b : c
  /// Scans: the value at j is what the reduction of the same name makes of the operand at 0..j.
  kScanSum,
  kScanProd,
  kScanMax,
  kScanMin,
  /// Combines over the vector loop; the result is a row scalar, visible after the loop ends.
  kReduceSum,
  kReduceProd,
  kReduceMax,
  kReduceMin,
  kReduceAny,
  kReduceAll,
  kReduceMaxNumber,              ///< the greatest that is not NaN; -inf where all are
  kReduceArgMax,
  kReduceArgMin,  ///< i64 index of the first extreme; NaN wins as in torch
  /// Sum of a * b over k: the end of a contraction (Block::into).
  kReduceDot,
};

/// A position in the kernel's value list.
using Id = uint32_t;
inline constexpr Id kNone = ~0u;

/// offset + sum(coef[k] * loop var k) + sum(coef * loaded value): an element offset into a buffer
/// (not bytes), or the value of kIndex. Loop vars are the row dims i0.., then j, and in a contraction its k0, k1 and so
/// on.
struct Index {
  Dim offset;
  Dims coefs;  ///< one for each row dim, then one for j; in a contraction then one for each k
  struct Gathered {
    Id value;
    Dim coef;
  };
  std::vector<Gathered> gathered;  ///< i64 values; already checked, see IndexCheck
};

/// What a cast to i64 does with an index read from a tensor, for a dimension of n elements. A value
/// it refuses makes the kernel return INGOT_KERNEL_INDEX_OUT_OF_RANGE.
enum class IndexCheck : uint8_t {
  kNone,
  kWrap,  ///< takes [-n, n) and adds n to negative values
  kWithin,  ///< takes [0, n)
};

/// One scalar instruction; its result type is `dtype`.
struct Inst {
  ScalarOp op = ScalarOp::kConst;
  DType dtype = DType::kF32;
  std::vector<Id> args;
  double imm_f = 0;
  int64_t imm_i = 0;
  Dim size;  ///< kSize
  Index index;  ///< kIndex, kLoad, kStore
  uint32_t buffer = 0;  ///< kLoad, kStore: parameter number (>= params.size(): row buffer)
  /// kLoad, kStore: bool value; where false nothing is accessed and a load gives 0. kNone = always.
  Id predicate = kNone;
  IndexCheck check = IndexCheck::kNone;  ///< kCast
  Dim check_dim;  ///< the n of `check`, in elements
};

/// The part of a loop that a row has a use for: its variable takes the values of [first, end) that lie in its extent.
/// Both are i64 values of the row, from blocks before.
struct ActiveRange {
  Id first = kNone;  ///< kNone: 0
  Id end = kNone;  ///< kNone: there is no active range, the loop runs over its extent
  bool of_depth = false;  ///< of a contraction: what is bounded is k, not j
  bool operator==(const ActiveRange&) const = default;
};

/// One loop over j in [0, extent), or a block executed once for each row (is_loop false).
/// Blocks of a row run in order; an instruction may use results of its own block, of earlier
/// scalar blocks, and row scalars reduced by earlier loops. Elementwise results of an earlier
/// loop cross over only through a row buffer or an output buffer.
///
/// A loop with `into` is a contraction: for each j the instructions run for each k in [0, depth), and the
/// last of them, a kReduceDot, ends up at [j] of that row buffer. Its operands are loads, casts and
/// what else says how elements are decoded. Where elements come in groups (a scale for 64 of them, two
/// in one byte), k is several variables.
///
/// What an active range leaves out of j is not computed: row buffers hold nothing there that anyone may read.
struct Block {
  bool is_loop = true;
  Dim extent;
  std::vector<Id> insts;
  Dims depths = {};  ///< extents of k0, k1 and so on, contractions only
  uint32_t into = kNone;  ///< row buffer (a position in Kernel::row_buffers) that a contraction fills
  ActiveRange active_range = {};  ///< loops only

  bool is_contraction() const { return into != kNone; }
  bool has_active_range() const { return active_range.end != kNone; }
  /// Terms of each sum of a contraction.
  Dim Depth() const { return guards::Product(depths); }
};

enum class ParamMode : uint8_t { kIn, kOut, kInOut };

struct Param {
  DType dtype = DType::kF32;
  ParamMode mode = ParamMode::kIn;
  Dim elements;  ///< size of the addressed range, for the interpreter's bounds checks
};

/// A temporary of one row, in scratch: `extent` elements.
struct RowBuffer {
  DType dtype = DType::kF32;
  Dim extent;
};

/// One fused kernel: for every row (point of `rows`, row-major), run `blocks` in order.
///
/// Rows are independent (the executor splits them over threads). The j loop is the vector loop.
/// Symbols are the kernel's own s0.., renumbered by first use so that equal kernels are equal
/// text. Text format: docs/format/loop.md.
struct Kernel {
  std::string name = "kernel";  ///< Not part of identity.
  uint16_t symbol_count = 0;
  std::vector<Param> params;
  std::vector<RowBuffer> row_buffers;
  Dims rows;
  std::vector<Inst> insts;  ///< all instructions of all blocks
  std::vector<Block> blocks;
};

}  // namespace ingot::compiler::loop
