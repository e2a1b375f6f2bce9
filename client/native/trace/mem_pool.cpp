// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/mem_pool.h"

#include <c10/core/CPUAllocator.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(0)
#endif

namespace ingot::client {
namespace {

/// Of addresses, which cost nothing before something lies there.
constexpr size_t kRegionBytes = size_t{4} << 30;
constexpr size_t kReach = 64 << 20;
constexpr size_t kSmallPage = 4096;
/// A run that needs less would wait longer for one to be cleared.
constexpr size_t kLargePage = 2 << 20;
/// malloc finds room for smaller ones soon enough.
constexpr size_t kBytesMin = 32 << 10;
/// PyTorch's own, of CPU memory.
constexpr size_t kBlockAlignment = 64;

constexpr size_t RoundedUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Of everything here: blocks end on any thread. Never destroyed, as tensors may outlive everything.
std::mutex& PoolsLock() {
  static std::mutex* const lock = [] {
    auto* const made = new std::mutex;
    // A child in which another thread held it could give nothing back.
    pthread_atfork([] { PoolsLock().lock(); }, [] { PoolsLock().unlock(); }, [] { PoolsLock().unlock(); });
    return made;
  }();
  return *lock;
}

}  // namespace

/// Addresses, some of them free. Needs PoolsLock().
class MemPool::Region {
 public:
  /// Null where there are no addresses.
  static std::shared_ptr<Region> Make() {
    // Who may have so many addresses only needs them elsewhere.
    rlimit addresses{};
    if (getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur != RLIM_INFINITY) return nullptr;
    void* const reserved =
        mmap(nullptr, kRegionBytes + kLargePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return reserved == MAP_FAILED ? nullptr : std::make_shared<Region>(static_cast<uint8_t*>(reserved));
  }

  explicit Region(uint8_t* reserved)
      : reserved_(reserved),
        first_(reinterpret_cast<uint8_t*>(RoundedUp(reinterpret_cast<uintptr_t>(reserved), kLargePage))) {
    // Kernels without large pages refuse, and nothing is lost.
    static_cast<void>(madvise(first_ + kLargePage, kRegionBytes - kLargePage, MADV_HUGEPAGE));
    free_.emplace(0, kRegionBytes);
  }

  ~Region() {
    ASAN_UNPOISON_MEMORY_REGION(first_, kRegionBytes);  // Others may be mapped there.
    munmap(reserved_, kRegionBytes + kLargePage);
  }
  Region(Region&&) = delete;
  Region& operator=(Region&&) = delete;

  uintptr_t first() const { return reinterpret_cast<uintptr_t>(first_); }
  bool has_tensors() const { return !taken_.empty(); }
  bool is_closed() const { return is_closed_; }

  /// Null where there is no room.
  void* Take(size_t bytes) {
    const size_t wanted = RoundedUp(bytes, kBlockAlignment);
    const auto found = std::ranges::find_if(free_, [&](const auto& range) { return range.second >= wanted; });
    if (found == free_.end() || is_closed_) return nullptr;
    const auto [at, room] = *found;
    if (!Reach(at + wanted)) return nullptr;
    free_.erase(found);
    if (room > wanted) free_.emplace(at + wanted, room - wanted);
    taken_.emplace(at, wanted);
    ASAN_UNPOISON_MEMORY_REGION(first_ + at, wanted);
    return first_ + at;
  }

  void GiveBack(void* block) {
    const auto taken = taken_.find(static_cast<size_t>(static_cast<uint8_t*>(block) - first_));
    const auto [at, bytes] = *taken;
    taken_.erase(taken);
    ASAN_POISON_MEMORY_REGION(first_ + at, bytes);
    auto here = free_.emplace(at, bytes).first;
    if (const auto next = std::next(here); next != free_.end() && at + bytes == next->first) {
      here->second += next->second;
      free_.erase(next);
    }
    if (here != free_.begin()) {
      const auto before = std::prev(here);
      if (before->first + before->second == at) {
        before->second += here->second;
        free_.erase(here);
        here = before;
      }
    }
    if (!is_closed_) return;
    const size_t first = std::max(here->first, at / kSmallPage * kSmallPage);
    Drop(first, std::min(here->first + here->second, RoundedUp(at + bytes, kSmallPage)) - first);
  }

  /// Nothing more is taken, and what is free goes back to the kernel.
  void Close() {
    is_closed_ = true;
    for (const auto& [at, bytes] : free_) Drop(at, bytes);
  }

 private:
  /// Makes memory of addresses, up to an offset: where the kernel promises no more than it has, nothing is promised
  /// that nobody takes. False where it has no more.
  bool Reach(size_t end) {
    if (end <= reached_) return true;
    const size_t wanted = RoundedUp(end, kReach);
    if (mprotect(first_ + reached_, wanted - reached_, PROT_READ | PROT_WRITE) != 0) return false;
    reached_ = wanted;
    return true;
  }

  void Drop(size_t at, size_t bytes) {
    const size_t first = RoundedUp(at, kSmallPage), end = (at + bytes) / kSmallPage * kSmallPage;
    if (first < end) static_cast<void>(madvise(first_ + first, end - first, MADV_DONTNEED));
  }

  uint8_t* const reserved_;
  uint8_t* const first_;
  std::map<size_t, size_t> free_;   ///< bytes by offset from `first_`; neighbours are one
  std::map<size_t, size_t> taken_;  ///< likewise, of tensors
  size_t reached_ = 0;              ///< what lies behind is addresses alone
  bool is_closed_ = false;
};

namespace {

thread_local std::shared_ptr<MemPool::Region> in_use;

/// In front of PyTorch's own allocator of CPU memory, from the first pool on, for good: memory that somebody takes by
/// raw_allocate() is given to whichever allocator is there when it ends.
class PoolAllocator final : public c10::Allocator {
 public:
  static PoolAllocator& Shared() {
    static auto* const shared = new PoolAllocator;
    return *shared;
  }

  c10::DataPtr allocate(size_t bytes) override {
    // The profiler shows what PyTorch's own tells it.
    if (in_use != nullptr && bytes >= kBytesMin && !c10::memoryProfilingEnabled()) {
      const std::scoped_lock guard(PoolsLock());
      if (void* const block = in_use->Take(bytes); block != nullptr) return {block, block, &Delete, c10::kCPU};
    }
    c10::DataPtr plain = behind_->allocate(bytes);
    static_cast<void>(plain.compare_exchange_deleter(behind_->raw_deleter(), &Delete));
    return plain;
  }

  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, size_t bytes) const override { behind_->copy_data(to, from, bytes); }

  // What follows needs PoolsLock().

  /// False where another allocator is there, which may not be passed over.
  bool Enter(const std::shared_ptr<MemPool::Region>& region) {
    if (behind_ == nullptr) {
      if (c10::GetCPUAllocator()->raw_deleter() == nullptr) return false;
      behind_ = c10::GetCPUAllocator();
      c10::SetCPUAllocator(this);
    }
    if (c10::GetCPUAllocator() != this) return false;
    regions_.emplace(region->first(), region);
    Note();
    return true;
  }

  /// Forgets a region that is closed once no tensor lies there.
  void LeaveIfEmpty(const std::shared_ptr<MemPool::Region>& region) {
    if (region->has_tensors()) return;
    regions_.erase(region->first());
    Note();
  }

 private:
  static void Delete(void* block) {
    const auto address = reinterpret_cast<uintptr_t>(block);
    PoolAllocator& self = Shared();
    // Outside of all regions, as almost always.
    const uintptr_t first = self.first_;
    if (address - first >= self.end_ - first || !self.GiveBack(block)) self.behind_->raw_deleter()(block);
  }

  bool GiveBack(void* block) {
    std::shared_ptr<MemPool::Region> region;  // It may end with the block, once the lock is free.
    const std::scoped_lock guard(PoolsLock());
    const auto after = regions_.upper_bound(reinterpret_cast<uintptr_t>(block));
    if (after == regions_.begin()) return false;
    region = std::prev(after)->second;
    if (reinterpret_cast<uintptr_t>(block) - region->first() >= kRegionBytes) return false;
    region->GiveBack(block);
    if (region->is_closed()) LeaveIfEmpty(region);
    return true;
  }

  void Note() {
    first_ = regions_.empty() ? 0 : regions_.begin()->first;
    end_ = regions_.empty() ? 0 : regions_.rbegin()->first + kRegionBytes;
  }

  c10::Allocator* behind_ = nullptr;  ///< written once, before anybody is led here
  std::map<uintptr_t, std::shared_ptr<MemPool::Region>> regions_;
  std::atomic<uintptr_t> first_{0}, end_{0};  ///< of all of them
};

}  // namespace

MemPool::MemPool() : region_(Region::Make()) {
  if (region_ == nullptr) return;
  const std::scoped_lock guard(PoolsLock());
  if (PoolAllocator::Shared().Enter(region_))
    in_use = region_;
  else
    region_.reset();
}

MemPool::~MemPool() {
  if (region_ == nullptr) return;
  if (in_use == region_) in_use.reset();  // Another thread's lets it go with its next pool, or with the thread.
  const std::scoped_lock guard(PoolsLock());
  region_->Close();
  PoolAllocator::Shared().LeaveIfEmpty(region_);
}

}  // namespace ingot::client
