// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/mem_pool.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace ingot::client {
namespace {

constexpr int64_t kMany = 1 << 20;

enum class Page { kHere, kGone, kUnmapped };

/// What lies at an address.
Page PageAt(const void* address) {
  unsigned char is_here = 0;
  auto* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) & ~uintptr_t{4095});
  if (mincore(page, 1, &is_here) != 0) return errno == ENOMEM ? Page::kUnmapped : Page::kGone;
  return (is_here & 1) != 0 ? Page::kHere : Page::kGone;
}

/// Of this process.
int64_t PagesOfAddresses() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

bool IsAll(const at::Tensor& tensor, float value) {
  const float* const elements = tensor.const_data_ptr<float>();
  return std::all_of(elements, elements + tensor.numel(), [&](float element) { return element == value; });
}

TEST(MemPool, TakesAgainWhatARunHasGivenBack) {
  const MemPool pool;
  const void* const first = at::full({kMany}, 1.0F).data_ptr();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(at::full({kMany}, 2.0F).data_ptr(), first);
    EXPECT_EQ(at::full({kMany / 4}, 2.0F).data_ptr(), first) << "the lowest that is free";
  }
}

TEST(MemPool, LivesOnAsLongAsATensorDoesAndGivesBackTheRest) {
  std::optional<MemPool> pool(std::in_place);
  at::Tensor dropped = at::full({kMany}, 1.0F), kept = at::full({kMany}, 2.0F), later = at::full({kMany}, 3.0F);
  const float* const in_dropped = dropped.const_data_ptr<float>() + 2048;
  const float* const in_kept = kept.const_data_ptr<float>() + 2048;
  const float* const in_later = later.const_data_ptr<float>() + 2048;
  dropped.reset();
  EXPECT_EQ(PageAt(in_dropped), Page::kHere) << "for what comes next";
  pool.reset();
  EXPECT_EQ(PageAt(in_dropped), Page::kGone);
  EXPECT_TRUE(IsAll(kept, 2.0F) && IsAll(later, 3.0F));
  later.reset();
  EXPECT_EQ(PageAt(in_later), Page::kGone);
  EXPECT_EQ(PageAt(in_kept), Page::kHere);
  EXPECT_TRUE(IsAll(kept, 2.0F));
  kept.resize_({2 * kMany});  // Of where it comes from, which is no pool any more.
  EXPECT_TRUE(IsAll(kept.narrow(0, 0, kMany), 2.0F));
  EXPECT_EQ(PageAt(in_kept), Page::kUnmapped);
}

TEST(MemPool, IsOfOneThreadAndEndsOnAny) {
  std::optional<MemPool> pool(std::in_place);
  at::Tensor mine = at::full({kMany}, 1.0F), theirs;
  std::thread([&] {
    theirs = at::full({kMany}, 2.0F);
    mine.reset();
  }).join();
  const void* const again = at::full({kMany}, 1.0F).data_ptr();
  std::thread([&] { pool.reset(); }).join();
  at::Tensor after = at::full({kMany}, 3.0F);
  EXPECT_NE(after.data_ptr(), again) << "it has ended";
  EXPECT_TRUE(IsAll(theirs, 2.0F) && IsAll(after, 3.0F));
  const MemPool next;
  at::Tensor in_next = at::full({kMany}, 4.0F);
  EXPECT_TRUE(IsAll(in_next, 4.0F));
}

TEST(MemPool, MemoryTakenInTheRawEndsWithWhicheverAllocatorIsThere) {
  std::optional<MemPool> pool(std::in_place);
  void* const inside = c10::GetCPUAllocator()->raw_allocate(kMany);
  pool.reset();
  void* const outside = c10::GetCPUAllocator()->raw_allocate(kMany);
  pool.emplace();
  c10::GetCPUAllocator()->raw_deallocate(outside);
  pool.reset();
  c10::GetCPUAllocator()->raw_deallocate(inside);
  EXPECT_EQ(PageAt(inside), Page::kUnmapped);
}

TEST(MemPool, NothingAndMoreThanThereIsComeFromElsewhere) {
  const MemPool pool;
  EXPECT_EQ(at::empty({0}).numel(), 0);
  const at::Tensor large = at::empty({int64_t{5} << 30}, at::kByte);  // Of addresses alone: nobody writes there.
  EXPECT_NE(large.data_ptr(), nullptr);
  EXPECT_TRUE(IsAll(at::full({kMany}, 1.0F), 1.0F));
}

TEST(MemPool, LeavesTheAddressesOfAProcessThatMayHaveFew) {
  const pid_t child = fork();
  if (child == 0) {
    at::set_num_threads(1);
    const rlimit few{.rlim_cur = rlim_t{1} << 44, .rlim_max = rlim_t{1} << 44};
    if (setrlimit(RLIMIT_AS, &few) != 0) _exit(2);
    const int64_t before = PagesOfAddresses();
    const MemPool pool;
    const bool is_right = IsAll(at::full({kMany}, 1.0F), 1.0F);
    _exit(is_right && PagesOfAddresses() - before < (64 << 20) / 4096 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(MemPool, AChildGivesBackWhatItsParentTook) {
  std::optional<MemPool> pool(std::in_place);
  at::Tensor tensor = at::full({kMany}, 1.0F);
  const pid_t child = fork();
  if (child == 0) {
    at::set_num_threads(1);  // Those of its parent are not here.
    const bool is_right = IsAll(tensor, 1.0F);
    tensor.reset();
    pool.reset();
    _exit(is_right && IsAll(at::full({kMany}, 2.0F), 2.0F) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(IsAll(tensor, 1.0F));
}

// Whatever comes and goes, on whichever thread: nothing lies in two tensors, and nothing stays.
TEST(MemPool, HoldsApartWhatComesAndGoes) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<at::Tensor, float>> held;
    std::vector<const void*> places;
    std::optional<MemPool> pool(std::in_place);
    const auto drop = [&] {
      std::swap(held[random() % held.size()], held.back());
      ASSERT_TRUE(IsAll(held.back().first, held.back().second));
      if (random() % 2 == 0) {
        std::thread([&] { held.back().first.reset(); }).join();
      }
      held.pop_back();
    };
    for (int step = 0; step < 200; ++step) {
      if (held.empty() || random() % 3 != 0) {
        const auto count = static_cast<int64_t>(random() % (random() % 8 == 0 ? 2 * kMany : 40000));
        held.emplace_back(at::full({count}, static_cast<float>(step)), static_cast<float>(step));
        if (count * 4 >= 65536) places.push_back(held.back().first.data_ptr());
      } else {
        drop();
      }
    }
    pool.reset();
    while (!held.empty()) drop();
    for (const void* place : places) EXPECT_NE(PageAt(place), Page::kHere) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ingot::client
