/* SPDX-License-Identifier: Apache-2.0 */
/* The C ABI between the executor and generated kernels. Frozen: a change is a new version. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 2: a range counts tasks, which may be tiles of rows and columns; 1: rows. */
#define INGOT_KERNEL_ABI_VERSION 2

/* What one call of a kernel sees. Everything is owned by the caller and constant during the call. */
typedef struct IngotCallFrame {
  /* Address of element 0 of each buffer parameter, in parameter order. */
  void* const* buffers;
  /* Values of the kernel's symbols s0, s1, ... */
  const int64_t* symbols;
  /* Half-open range of tasks this call computes: rows, or tiles of rows and columns (compiler/loop/schedule.h). */
  int64_t row_begin;
  int64_t row_end;
  /* 64-byte aligned memory of at least the kernel's scratch_bytes; contents undefined. */
  void* scratch;
} IngotCallFrame;

enum {
  INGOT_KERNEL_OK = 0,
  /* An index read from a tensor (gather, embedding) lies outside the indexed dimension. */
  INGOT_KERNEL_INDEX_OUT_OF_RANGE = 1,
  /* An access would have left its buffer. Only code that was asked to check itself says so. */
  INGOT_KERNEL_ACCESS_OUT_OF_BOUNDS = 2,
};

/* Computes tasks [row_begin, row_end). Reentrant: ranges of one kernel run on several threads. */
typedef int32_t (*IngotKernel)(const IngotCallFrame*);

#ifdef __cplusplus
}
#endif
