// SPDX-License-Identifier: Apache-2.0
#include "client/lib/threads/aten_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <omp.h>

namespace ingot::client {
namespace {

/// Of the thread; 0: as the process has it. Gives what was so before. A PyTorch without MKL has none.
int SetMkl(int threads) {
  using Set = int (*)(int);
  static const auto set = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local"));
  return set == nullptr ? 0 : set(threads);
}

}  // namespace

// at::set_num_threads would be heard by threads that begin meanwhile.
AtenThreads::AtenThreads(int most) {
  if (most >= at::get_num_threads()) return;
  before_ = at::get_num_threads();
  omp_set_num_threads(most);
  mkl_before_ = SetMkl(most);
}

AtenThreads::~AtenThreads() {
  if (before_ == 0) return;
  omp_set_num_threads(before_);
  SetMkl(mkl_before_);
}

}  // namespace ingot::client
