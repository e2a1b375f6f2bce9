// SPDX-License-Identifier: Apache-2.0
#include "client/lib/threads/aten_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <omp.h>

#include <atomic>

namespace ingot::client {
namespace {

/// Of the thread; 0: as the process has it. Gives what was so before. A PyTorch without MKL has none.
int SetMkl(int threads) {
  using Set = int (*)(int);
  // No static that is made once: a fork in the middle would leave the child waiting for it.
  static std::atomic<Set> found = nullptr;
  static std::atomic<bool> is_looked_for = false;
  if (!is_looked_for.load(std::memory_order_acquire)) {
    found = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local"));
    is_looked_for.store(true, std::memory_order_release);
  }
  const Set set = found.load(std::memory_order_relaxed);
  return set == nullptr ? 0 : set(threads);
}

}  // namespace

// at::set_num_threads would be heard by threads that begin meanwhile.
AtenThreads::AtenThreads(int most) : most_(most) {
  if (most >= at::get_num_threads()) return;
  before_ = at::get_num_threads();
  omp_set_num_threads(most);
  mkl_before_ = SetMkl(most);
}

AtenThreads::~AtenThreads() {
  if (before_ == 0 || omp_get_max_threads() != most_) return;
  omp_set_num_threads(before_);
  SetMkl(mkl_before_);
}

}  // namespace ingot::client
