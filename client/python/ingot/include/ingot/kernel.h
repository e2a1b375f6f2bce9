/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of an operator of your own, for ingot.register_kernel. Plain C: no PyTorch, no Python, no GIL.
 *
 *   #include <ingot/kernel.h>
 *
 *   INGOT_KERNEL(scale) {                      // my::scale(Tensor x, float by) -> Tensor
 *     const IngotTensor* x = &call->arguments[0].tensor;
 *     if (x->dtype != INGOT_F32) return call->fail(call, "scale takes f32");
 *     IngotTensor* y = call->make_result(call, x->dtype, x->rank, x->sizes);
 *     ...                                      // y is contiguous; x has the strides it says
 *     return 0;
 *   }
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when anything below changes; a kernel of another version is refused when it is registered. */
#define INGOT_USER_KERNEL_ABI 1

/* Element types, as PyTorch's of those names. */
enum IngotDType {
  INGOT_BOOL = 0,
  INGOT_U8,
  INGOT_I8,
  INGOT_I16,
  INGOT_I32,
  INGOT_I64,
  INGOT_F16,
  INGOT_BF16,
  INGOT_F32,
  INGOT_F64,
  INGOT_C64,
  INGOT_C128,
  INGOT_F8E4M3, /* float8_e4m3fn */
  INGOT_F8E5M2
};

/* Sizes and strides are `rank` numbers each; strides are in elements. A kernel writes to results alone. */
typedef struct IngotTensor {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
  int32_t rank;
  int32_t dtype;
} IngotTensor;

enum IngotKind { INGOT_NONE = 0, INGOT_TENSOR, INGOT_BOOLEAN, INGOT_INTEGER, INGOT_REAL };

/* One argument, in the order of the operator's schema; which field counts follows from `kind`. Booleans are integers.
 */
typedef struct IngotArgument {
  int32_t kind;
  IngotTensor tensor;
  int64_t integer;
  double real;
} IngotArgument;

typedef struct IngotCall IngotCall;
struct IngotCall {
  uint32_t abi;
  int32_t argument_count;
  const IngotArgument* arguments;
  /* The next result: contiguous, not initialised. Null where it cannot be made; the call then fails by itself. */
  IngotTensor* (*make_result)(IngotCall* call, int32_t dtype, int32_t rank, const int64_t* sizes);
  /* Calls `body` for pieces of [0, count), `grain` or more at a time, on PyTorch's threads. */
  void (*parallel_for)(IngotCall* call, int64_t count, int64_t grain,
                       void (*body)(void* state, int64_t begin, int64_t end), void* state);
  /* Makes the call raise a RuntimeError with this text; gives what the kernel returns then. */
  int (*fail)(IngotCall* call, const char* message);
};

/* 0, or another number where the call has failed. */
typedef int (*IngotUserKernel)(IngotCall* call);

#ifdef __cplusplus
}
#define INGOT_EXPORTED extern "C" __attribute__((visibility("default")))
#else
#define INGOT_EXPORTED __attribute__((visibility("default")))
#endif

/* Begins the kernel `name`. */
#define INGOT_KERNEL(name)                                                   \
  INGOT_EXPORTED uint32_t name##_abi(void) { return INGOT_USER_KERNEL_ABI; } \
  INGOT_EXPORTED int name(IngotCall* call)
