// SPDX-License-Identifier: Apache-2.0
#include "client/lib/threads/machine_share.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/log.h"
#include "base/mutex.h"
#include "base/processors.h"
#include "client/lib/threads/of_process.h"

namespace ingot::client {
namespace {

constexpr int64_t kMs = 1'000'000;
/// A daemon brings its page up to date every few milliseconds while calls run, and this is how often it is read.
constexpr int64_t kLookAtDaemonNs = 5 * kMs;
/// What /proc/stat counts in are ticks of 10 ms, and to read it takes a part of one.
constexpr int64_t kLookAroundNs = 100 * kMs;
/// Processors and quotas of a running process change by hand.
constexpr int64_t kLookAtLimitsNs = 1000 * kMs;
/// A page that was written longer ago is that of a daemon which is gone, or stands still.
constexpr int64_t kStaleNs = 1000 * kMs;
constexpr size_t kGivenMax = 1000;

int64_t ProcessorTimeNs() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return used.tv_sec * 1'000'000'000 + used.tv_nsec;
}

std::atomic<MachineShare*> share_of_process = nullptr;
std::atomic<uint32_t> forks = 0;  ///< this process is a child of a child ... of the first

/// Of calls that run on this thread, one inside of the other: what the outermost has. Numbers and no pointer to that
/// call: whoever switches stacks may end calls in another order than they began.
struct OfThread {
  uint32_t depth = 0;
  int threads = 1, steady_threads = 1;
};
thread_local constinit OfThread of_thread;

}  // namespace

Result<std::shared_ptr<const SharedPage>> SharedPage::Map(const UniqueFd& file, bool is_written, uint64_t magic) {
  struct stat stat{};
  const int seals = fcntl(file.get(), F_GET_SEALS);
  // One that could shrink would end this process when it is looked at.
  if (fstat(file.get(), &stat) != 0 || stat.st_size != proto::kLoadPageBytes || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    return Error(Code::kInvalid, fmt::format("a page of {} bytes with seals {:#x}, expected {} bytes that stay",
                                             stat.st_size, seals, proto::kLoadPageBytes));
  }
  void* const address =
      mmap(nullptr, proto::kLoadPageBytes, is_written ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return Error(Code::kExhausted, "a page of the daemon's cannot be mapped");
  std::shared_ptr<const SharedPage> page(new SharedPage(address));
  const uint64_t found = page->as<std::atomic<uint64_t>>()->load(std::memory_order_relaxed);
  if (found != magic) {
    return Error(Code::kIncompatible, fmt::format("a page of kind {:#x}, expected {:#x}", found, magic));
  }
  return page;
}

SharedPage::~SharedPage() { munmap(address_, proto::kLoadPageBytes); }

/// What only those touch who look, one at a time.
struct MachineShare::Own {
  explicit Own(const std::string& root) : use(root) { use.LeaveOutNiced(); }

  Mutex mutex;
  // What calls may still read or write stays mapped.
  struct Given {
    std::shared_ptr<const SharedPage> own, machine;
    size_t row = 0;
    uint32_t holder = 0;
  };
  std::vector<Given> given GUARDED_BY(mutex);

  proto::ClientLoad unshared{};  // the page of a process that no daemon counts

  ProcessorUse use;
  ProcessorQuota quota;
  double processors = 1, left_by_quota = HUGE_VAL;
  int64_t limits_ns = 0, around_ns = 0, own_cpu_ns = 0;
  std::optional<uint64_t> group_cpu_ns;
  std::optional<double> others, others_of_group;  // processors at work for others

  void LookAtLimits(const std::string& root, int64_t now_ns) {
    if (limits_ns != 0 && now_ns - limits_ns < kLookAtLimitsNs) return;
    limits_ns = now_ns;
    // Of the process: the thread that looks may be bound to one of them.
    std::vector<bool> allowed = ProcessorsOf(getpid());
    processors = std::max<double>(1, static_cast<double>(std::ranges::count(allowed, true)));
    use.LookAt(std::move(allowed));
    const std::string before = quota.folder;
    quota = LeastQuota(root);
    if (quota.folder == before) return;
    group_cpu_ns = std::nullopt;
    others_of_group = std::nullopt;
    left_by_quota = quota.processors;
  }
};

MachineShare::MachineShare(std::string root, const Clock& clock)
    : root_(std::move(root)), clock_(clock), own_(std::make_unique<Own>(root_)) {
  page_ = &own_->unshared;
}

MachineShare::~MachineShare() = default;

void MachineShare::LeaveToParent() {
  ++forks;
  of_thread = {};  // A call in whose middle it was is the parent's.
  MachineShare* const parents = share_of_process.exchange(nullptr);
  if (parents != nullptr) parents->page_ = &parents->own_->unshared;
}

// The page is the parent's: what a child's calls say goes nowhere until it is connected by itself. When the library is
// loaded, and not with the first call, in whose middle another thread may fork.
[[maybe_unused]] const int kShareIsLeftToParent = pthread_atfork(nullptr, nullptr, MachineShare::LeaveToParent);

MachineShare& MachineShare::Instance() { return OfProcess(share_of_process); }

void MachineShare::Follow(const UniqueFd& own, const UniqueFd& machine, int row, uint32_t holder) {
  const Status mapped = Map(own, machine, row, holder);
  static std::atomic<bool> is_named = false;
  if (!mapped && !is_named.exchange(true)) {
    LogWarn("shares the machine without the daemon", {{"reason", mapped.error()}});
  }
}

Status MachineShare::Map(const UniqueFd& own, const UniqueFd& machine, int row, uint32_t holder) {
  if (row < 0 || static_cast<size_t>(row) >= proto::MachineLoad::kRows) {
    return Error(Code::kInvalid, fmt::format("row {} of {}", row, proto::MachineLoad::kRows));
  }
  TRY_ASSIGN(auto ours, SharedPage::Map(own, true, proto::kClientLoadMagic));
  TRY_ASSIGN(auto theirs, SharedPage::Map(machine, false, proto::kMachineLoadMagic));
  const MutexLock lock(own_->mutex);
  // Calls that have begun elsewhere end where they have begun: pages stay mapped, and a process that connects without
  // end stays with those that it has.
  if (own_->given.size() >= kGivenMax) return {};
  page_.store(ours->as<proto::ClientLoad>(), std::memory_order_release);
  own_->given.push_back({std::move(ours), std::move(theirs), static_cast<size_t>(row), holder});
  look_again_ns_ = 0;
  return {};
}

double MachineShare::PartOf(double cores, double others, uint32_t running) {
  return std::max(1.0, cores / (std::max(0.0, others) + std::max<uint32_t>(1, running)));
}

int MachineShare::Whole(double part, uint32_t turn) {
  constexpr double kNear = 0.25;
  const double below = std::floor(part), rest = part - below;
  if (rest <= kNear) return static_cast<int>(below);
  if (rest >= 1 - kNear) return static_cast<int>(below) + 1;
  const bool above = std::floor(rest * (turn + 1.0)) > std::floor(rest * turn);
  return static_cast<int>(below) + (above ? 1 : 0);
}

double MachineShare::PartOfOne(uint32_t running) {
  const int64_t now = clock_.steady_ns();
  if (now >= look_again_ns_.load(std::memory_order_relaxed)) Look(now);
  return PartOf(cores_milli_.load(std::memory_order_relaxed) / 1e3, others_milli_.load(std::memory_order_relaxed) / 1e3,
                running);
}

MachineShare::Call::Call(MachineShare& share, int most, bool is_fixed)
    : page_(*share.page_.load(std::memory_order_acquire)),
      of_fork_(forks.load(std::memory_order_relaxed)),
      is_part_(of_thread.depth++ > 0),
      threads_(most),
      steady_threads_(most) {
  if (is_part_) {
    if (!is_fixed) threads_ = std::min(most, of_thread.threads);
    steady_threads_ = std::min(most, of_thread.steady_threads);
    return;
  }
  const uint32_t running = page_.running.fetch_add(1, std::memory_order_relaxed) + 1;
  page_.calls.fetch_add(1, std::memory_order_relaxed);
  if (!is_fixed && most > 1) {
    const double part = share.PartOfOne(running);
    threads_ = std::min(most, Whole(part, share.turn_.fetch_add(1, std::memory_order_relaxed) & 0xffff));
    steady_threads_ = std::min(most, static_cast<int>(part + 0.25));
  }
  // Behind fork GNU's OpenMP waits for threads that only the parent has.
  if (of_fork_ != 0) steady_threads_ = 1;
  of_thread.threads = threads_;
  of_thread.steady_threads = steady_threads_;
  page_.threads.fetch_add(static_cast<uint32_t>(threads_), std::memory_order_relaxed);
}

MachineShare::Call::~Call() {
  if (of_fork_ != forks.load(std::memory_order_relaxed)) return;
  --of_thread.depth;
  if (is_part_) return;
  page_.threads.fetch_sub(static_cast<uint32_t>(threads_), std::memory_order_relaxed);
  page_.running.fetch_sub(1, std::memory_order_relaxed);
}

void MachineShare::Look(int64_t now_ns) {
  if (looking_.exchange(true, std::memory_order_acquire)) return;
  int64_t again_ns = now_ns + kLookAroundNs;
  try {
    own_->LookAtLimits(root_, now_ns);
    const std::optional<double> cores = LookAtDaemon(now_ns);
    const bool is_due = own_->around_ns == 0 || now_ns - own_->around_ns >= kLookAroundNs;
    if (is_due && (!cores || std::isfinite(own_->quota.processors))) LookAround(now_ns);
    if (!cores) others_milli_.store(0, std::memory_order_relaxed);
    const double left = cores.value_or(own_->processors - own_->others.value_or(0));
    const double most = std::max(1.0, std::min(left, own_->left_by_quota));
    cores_milli_.store(static_cast<uint32_t>(most * 1e3), std::memory_order_relaxed);
    is_followed_.store(cores.has_value(), std::memory_order_relaxed);
    if (cores) again_ns = now_ns + kLookAtDaemonNs;
  } catch (const std::exception&) {
    // Memory is short: what was known holds on.
  }
  look_again_ns_.store(again_ns, std::memory_order_relaxed);
  looking_.store(false, std::memory_order_release);
}

/// Processors for calls, as the newest connection has it whose row is still this process's; none: there is none.
std::optional<double> MachineShare::LookAtDaemon(int64_t now_ns) {
  const MutexLock lock(own_->mutex);
  for (auto at = own_->given.rbegin(); at != own_->given.rend(); ++at) {
    const auto& machine = *at->machine->as<const proto::MachineLoad>();
    const auto written_ns = static_cast<int64_t>(machine.written_ns.load(std::memory_order_relaxed));
    const proto::MachineLoad::Row& row = machine.rows[at->row];
    // Of a connection that the daemon has closed, the row may be another's.
    const bool is_fresh = now_ns - written_ns <= kStaleNs && written_ns - now_ns <= kStaleNs;
    if (!is_fresh || row.holder.load(std::memory_order_relaxed) != at->holder) continue;
    page_.store(at->own->as<proto::ClientLoad>(), std::memory_order_release);
    const uint32_t running = row.running_milli.load(std::memory_order_relaxed);
    const uint32_t own = row.own_milli.load(std::memory_order_relaxed);
    others_milli_.store(running > own ? running - own : 0, std::memory_order_relaxed);
    return row.cores_milli.load(std::memory_order_relaxed) / 1e3;
  }
  return std::nullopt;
}

/// What other programs leave, and other processes of the cgroup of its quota.
void MachineShare::LookAround(int64_t now_ns) {
  Own& own = *own_;
  const int64_t cpu_ns = ProcessorTimeNs();
  const auto passed = static_cast<double>(now_ns - own.around_ns);
  const double ours = static_cast<double>(cpu_ns - own.own_cpu_ns) / std::max(passed, 1.0);
  const auto average = [](std::optional<double>& so_far, double now) { so_far = (so_far.value_or(now) + now) / 2; };
  if (const std::optional<double> busy = own.use.Busy()) average(own.others, std::max(0.0, *busy - ours));
  const std::optional<uint64_t> group = std::isfinite(own.quota.processors) ? own.quota.UsedNs() : std::nullopt;
  if (group && own.group_cpu_ns && *group >= *own.group_cpu_ns && own.around_ns != 0) {
    const auto used = static_cast<double>(*group - *own.group_cpu_ns) / std::max(passed, 1.0);
    average(own.others_of_group, std::max(0.0, used - ours));
  }
  own.group_cpu_ns = group;
  own.around_ns = now_ns;
  own.own_cpu_ns = cpu_ns;
  own.left_by_quota = own.quota.processors - own.others_of_group.value_or(0);
}

MachineShare::View MachineShare::view() const {
  return {is_followed_.load(std::memory_order_relaxed), cores_milli_.load(std::memory_order_relaxed) / 1e3,
          others_milli_.load(std::memory_order_relaxed) / 1e3};
}

}  // namespace ingot::client
