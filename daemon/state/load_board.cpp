// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/load_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/priority.h"
#include "base/processors.h"
#include "proto/frame.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1
#endif

namespace ingot::daemon {
namespace {

using proto::ClientLoad;
using proto::MachineLoad;

// A process has a connection for each store that it uses, and few of them.
constexpr long kRowsOfProcess = 8;
constexpr int64_t kMs = 1'000'000;
/// While calls run, and for a while after the last one.
constexpr std::chrono::milliseconds kOften{10};
constexpr int64_t kOftenAfterNs = 1000 * kMs;
/// While clients are there and none of them runs: whoever begins is seen so late at most.
constexpr std::chrono::milliseconds kSeldom{250};
/// Averages follow within so much: several samples, and calls of a millisecond come out as a part of a call.
constexpr double kAverageS = 0.04;
constexpr double kRateAverageS = 1;
/// /proc/stat counts ticks of 10 ms, and to read it costs as much as many clients do.
constexpr int64_t kWindowNs = 200 * kMs, kFirstWindowNs = 50 * kMs;
constexpr double kOthersAverageS = 0.2;
/// Masks of running processes change by hand.
constexpr int64_t kRegroupNs = 1000 * kMs;
/// Nobody has looked for so long: what was known before is no beginning.
constexpr int64_t kPausedNs = 1000 * kMs;
/// CPU times read in one look: each is a system call that walks over the threads of its process. Those of more clients
/// are read by turns, for more time each.
constexpr size_t kTimesMax = 32;
/// Of a call: less is none.
constexpr double kAlmostNone = 1e-3;

double SecondsOf(int64_t ns) { return static_cast<double>(ns) / 1e9; }

/// By how much of the difference an average follows after so many seconds.
double Weight(double passed_s, double average_s) { return 1 - std::exp(-passed_s / average_s); }

uint32_t Milli(double value) { return static_cast<uint32_t>(std::clamp(std::round(value * 1e3), 0.0, 4e9)); }

std::optional<int64_t> CpuNsOf(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  // 0 would be this process itself.
  if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return std::nullopt;
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::optional<ProcessorSet> AllowedOf(pid_t pid) {
  // 0 would be the calling thread itself.
  const std::vector<bool> allowed = pid > 0 ? ProcessorsOf(pid) : std::vector<bool>();
  ProcessorSet set;
  if (allowed.empty() || allowed.size() > set.size()) return std::nullopt;
  for (size_t i = 0; i < allowed.size(); ++i) set[i] = allowed[i];
  return set;
}

size_t ProcessorsOnline() {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : static_cast<size_t>(count);
}

/// nullptr: no memory, no descriptor, or a kernel that does not know the seals. `magic` is the first field of the page.
std::shared_ptr<const UniqueFd> MakePage(uint64_t magic) {
  Result<UniqueFd> made = proto::MakeMemory("ingot-load", proto::kLoadPageBytes);
  if (!made || pwrite(made->get(), &magic, sizeof magic, 0) != sizeof magic) return nullptr;
  return std::make_shared<UniqueFd>(std::move(*made));
}

/// One that somebody else could make smaller would end whoever has mapped it.
bool Seal(const UniqueFd& page, int more) {
  return fcntl(page.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | more) == 0;
}

/// What a client says of itself; nothing runs where its page has become none. It is read and not mapped: a page that
/// its client has taken the memory from would need memory here, and end this process where there is none.
struct Said {
  uint32_t running = 0, threads = 0;
  uint64_t calls = 0;
};
Said Read(const UniqueFd& page) {
  ClientLoad found{};
  if (pread(page.get(), &found, sizeof found, 0) != sizeof found || found.magic != proto::kClientLoadMagic) return {};
  return {found.running, found.threads, found.calls};
}

}  // namespace

LoadSources::LoadSources() : clock(&SystemClock()), cpu_ns(CpuNsOf), allowed(AllowedOf), processors(ProcessorsOnline) {}

/// The machine's, mapped. Clients may not write it.
class LoadBoard::Page {
 public:
  /// nullptr as MakePage.
  static std::unique_ptr<Page> Make() {
    auto file = MakePage(proto::kMachineLoadMagic);
    if (file == nullptr) return nullptr;
    void* const address = mmap(nullptr, proto::kLoadPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
    if (address == MAP_FAILED) return nullptr;
    std::unique_ptr<Page> page(new Page(std::move(file), address));
    return Seal(*page->file_, F_SEAL_FUTURE_WRITE) ? std::move(page) : nullptr;
  }
  ~Page() { munmap(address_, proto::kLoadPageBytes); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  MachineLoad& fields() const { return *static_cast<MachineLoad*>(address_); }
  const std::shared_ptr<const UniqueFd>& file() const { return file_; }

 private:
  Page(std::shared_ptr<const UniqueFd> file, void* address) : file_(std::move(file)), address_(address) {}
  const std::shared_ptr<const UniqueFd> file_;
  void* const address_;
};

struct LoadBoard::Client {
  const size_t row;
  const uint32_t holder;
  const pid_t pid;
  const std::shared_ptr<const UniqueFd> page;

  // From here on the sampler's.
  size_t group = 0;
  double running = 0, threads = 0, used = 0, calls_per_s = 0, demand = 0;
  uint64_t calls = 0, seen_calls = 0;  ///< of the last window, and of the last look
  std::optional<int64_t> looked_ns, ran_ns;
  bool is_seen = true;  ///< its CPU time is
  int64_t cpu_ns = 0;
  std::optional<int64_t> cpu_looked_ns;
  double window_used_s = 0, window_threads_s = 0;

  double beside = 0;  ///< processors that its process keeps busy with other things than calls

  /// Of this window: processor time of its calls, which is no more than their threads can have taken.
  double TakeWindow() {
    const double taken = std::min(window_used_s, window_threads_s);
    window_used_s = window_threads_s = 0;
    return taken;
  }
};

LoadBoard::LoadBoard(LoadSources sources) : sources_(std::move(sources)), use_(sources_.root) { use_.LeaveOutNiced(); }

LoadBoard::~LoadBoard() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
    thread = std::move(thread_);
    changed_.NotifyAll();
  }
  if (thread.joinable()) thread.join();
}

bool LoadBoard::MakeMachinePage() {
  machine_ = Page::Make();
  if (machine_ == nullptr) return false;
  machine_->fields().cores_milli = Milli(static_cast<double>(sources_.processors()));
  return true;
}

bool LoadBoard::StartSampling() {
  if (!sources_.is_sampled_here || thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

std::optional<LoadBoard::Seat> LoadBoard::Join(pid_t pid) {
  MutexLock lock(mutex_);
  const auto free = std::ranges::find(rows_, nullptr);
  const auto held =
      std::ranges::count_if(rows_, [pid](const auto& client) { return client != nullptr && client->pid == pid; });
  if (free == rows_.end() || (pid != 0 && held >= kRowsOfProcess) || !StartSampling()) {
    LogDebug("shares no load with a client", {{"pid", pid}, {"reason", "no row is left for it, or no thread"}});
    return std::nullopt;
  }
  const std::shared_ptr<const UniqueFd> page = MakePage(proto::kClientLoadMagic);
  if (page == nullptr || !Seal(*page, 0) || (machine_ == nullptr && !MakeMachinePage())) {
    LogDebug("shares no load with a client", {{"pid", pid}, {"reason", "the kernel makes no such page"}});
    return std::nullopt;
  }
  const auto row = static_cast<size_t>(free - rows_.begin());
  if (++holders_ == 0) ++holders_;
  *free = std::make_shared<Client>(row, holders_, pid, page);
  ran_ns_[row].store(0, std::memory_order_relaxed);
  // Until the first sample that sees it, which comes at once: what holds for the machine.
  auto& machine = machine_->fields();
  MachineLoad::Row& fields = machine.rows[row];
  const uint32_t cores = machine.cores_milli, others = machine.others_milli;
  fields.cores_milli = std::max<uint32_t>(1000, cores - std::min(cores, others));
  fields.running_milli = machine.running_milli.load();
  fields.own_milli = fields.used_milli = 0;
  fields.holder = holders_;
  ++count_;
  is_changed_ = true;
  changed_.NotifyAll();
  return Seat{row, holders_, page, machine_->file()};
}

void LoadBoard::Leave(const Seat& seat) {
  MutexLock lock(mutex_);
  std::shared_ptr<Client>& client = rows_[seat.row];
  if (client == nullptr || client->holder != seat.holder) return;
  client = nullptr;
  MachineLoad::Row& fields = machine_->fields().rows[seat.row];
  fields.holder = 0;
  fields.cores_milli = fields.running_milli = fields.own_milli = fields.used_milli = 0;
  --count_;
  is_changed_ = true;
  changed_.NotifyAll();
}

LoadBoard::Facts LoadBoard::facts() const {
  std::shared_ptr<const Facts> known;
  {
    MutexLock lock(mutex_);
    if (count_ != 0) known = facts_;
  }
  if (known != nullptr) return *known;
  Facts facts;
  facts.processors = static_cast<double>(sources_.processors());
  return facts;
}

void LoadBoard::Run() {
  // What it writes is of the last ten milliseconds, or is wrong; and clients are many where processors are few.
  AnswerSoon();
  Nanoseconds period{0};
  while (true) {
    {
      using Steady = std::chrono::steady_clock;
      const auto due = Steady::now() + period;
      MutexLock lock(mutex_);
      while (!is_ending_) {
        if (is_changed_ && (period != kOften || count_ == 0)) break;
        if (count_ != 0 && Steady::now() >= due) break;
        count_ == 0 ? changed_.Wait(mutex_) : changed_.WaitUntil(mutex_, due);
      }
      if (is_ending_) return;
    }
    period = Sample();
  }
}

LoadBoard::Nanoseconds LoadBoard::Sample() {
  MutexLock sampling(sampling_);
  const int64_t now = sources_.clock->steady_ns();
  if (!sampled_ns_ || now - *sampled_ns_ > kPausedNs) {
    busy_ = others_ = std::nullopt;
    use_.Busy();
    window_ns_ = now;
    gone_s_ = 0;
  }
  sampled_ns_ = now;
  TakeClients(now);
  const bool is_window_over = now - window_ns_ >= (others_ ? kWindowNs : kFirstWindowNs);
  bool is_running = false;
  for (const auto& client : clients_) {
    Look(*client, now);
    is_running |= client->ran_ns && now - *client->ran_ns < kOftenAfterNs;
  }
  LookAtTimes(now);
  if (is_window_over) LookAround(now);
  Publish(now);
  return is_running ? kOften : kSeldom;
}

void LoadBoard::TakeClients(int64_t now_ns) {
  bool is_changed = false;
  {
    MutexLock lock(mutex_);
    is_changed = std::exchange(is_changed_, false);
    if (is_changed) {
      for (const auto& client : clients_) {
        if (rows_[client->row] != client) gone_s_ += client->TakeWindow();
      }
      clients_.clear();
      std::ranges::copy_if(rows_, std::back_inserter(clients_), [](const auto& client) { return client != nullptr; });
    }
  }
  if (!is_changed && now_ns - grouped_ns_ < kRegroupNs) return;
  grouped_ns_ = now_ns;
  Regroup();
}

void LoadBoard::Regroup() {
  processors_ = static_cast<double>(std::max<size_t>(1, sources_.processors()));
  ProcessorSet all;
  for (size_t i = 0; i < all.size() && i < static_cast<size_t>(processors_); ++i) all.set(i);
  groups_.clear();
  for (const auto& client : clients_) {
    const std::optional<ProcessorSet> allowed = sources_.allowed(client->pid);
    const ProcessorSet& set = allowed && allowed->any() ? *allowed : all;
    const auto known = std::ranges::find(groups_, set, &Group::processors);
    client->group = static_cast<size_t>(known - groups_.begin());
    if (known == groups_.end())
      groups_.push_back({.processors = set, .count = static_cast<double>(set.count()), .overlapping = {}});
  }
  for (Group& group : groups_) {
    for (size_t i = 0; i < groups_.size(); ++i) {
      if ((group.processors & groups_[i].processors).any()) group.overlapping.push_back(i);
    }
  }
}

void LoadBoard::Look(Client& client, int64_t now_ns) {
  // Read once: it may be another number the next time.
  const auto [running, threads, calls] = Read(*client.page);
  const uint64_t begun = calls > client.calls ? calls - client.calls : 0;
  // Of one that says so for ever, its process being gone or asleep, nothing runs.
  const bool computes = client.pid == 0 || (client.is_seen && client.used > kAlmostNone);
  const double passed_s = client.looked_ns ? SecondsOf(now_ns - *client.looked_ns) : 0;
  client.looked_ns = now_ns;
  const bool has_begun = calls > std::exchange(client.seen_calls, calls);
  if (has_begun || (running != 0 && computes)) {
    client.ran_ns = now_ns;
    ran_ns_[client.row].store(now_ns, std::memory_order_relaxed);
  }
  if (passed_s > 0) {
    client.calls = calls;
    const double weight = Weight(passed_s, kAverageS);
    client.running += (running - client.running) * weight;
    client.threads += (threads - client.threads) * weight;
    client.calls_per_s +=
        (static_cast<double>(begun) / passed_s - client.calls_per_s) * Weight(passed_s, kRateAverageS);
    client.window_threads_s += threads * passed_s;
  }
}

void LoadBoard::LookAtTimes(int64_t now_ns) {
  size_t left = kTimesMax;
  for (size_t i = 0; i < clients_.size() && left != 0; ++i) {
    next_time_ = (next_time_ + 1) % clients_.size();
    Client& client = *clients_[next_time_];
    // Of who runs nothing it counts for nothing, and is only shown.
    const bool is_due =
        client.running > kAlmostNone || !client.cpu_looked_ns || now_ns - *client.cpu_looked_ns >= kWindowNs;
    if (!is_due) continue;
    LookAtTime(client, now_ns);
    --left;
  }
}

void LoadBoard::LookAtTime(Client& client, int64_t now_ns) {
  if (!client.is_seen) return;
  const std::optional<int64_t> cpu_ns = sources_.cpu_ns(client.pid);
  // What goes back is another process, which has its number by now.
  if (!cpu_ns || *cpu_ns < client.cpu_ns) {
    client.is_seen = false;
    client.used = 0;
    return;
  }
  const double passed_s = client.cpu_looked_ns ? SecondsOf(now_ns - *client.cpu_looked_ns) : 0;
  if (passed_s > 0) {
    const double used_s = std::min(SecondsOf(*cpu_ns - client.cpu_ns), processors_ * passed_s);
    client.used += (used_s / passed_s - client.used) * Weight(passed_s, kAverageS);
    client.window_used_s += used_s;
  }
  client.cpu_ns = *cpu_ns;
  client.cpu_looked_ns = now_ns;
}

/// What others have taken of the machine since the last time.
void LoadBoard::LookAround(int64_t now_ns) {
  const double window_s = SecondsOf(now_ns - window_ns_);
  window_ns_ = now_ns;
  const double weight = others_ ? Weight(window_s, kOthersAverageS) : 1;
  double calls_s = std::exchange(gone_s_, 0);
  for (const auto& client : clients_) {
    const double used_s = client->window_used_s, taken_s = client->TakeWindow();
    client->beside += ((used_s - taken_s) / window_s - client->beside) * weight;
    calls_s += taken_s;
  }
  const std::optional<double> busy = use_.Busy();
  if (!busy) return;
  const double others = std::max(0.0, *busy - calls_s / window_s);
  busy_ = busy_.value_or(0) + (*busy - busy_.value_or(0)) * weight;
  others_ = others_.value_or(0) + (others - others_.value_or(0)) * weight;
}

void LoadBoard::WriteRow(const Client& client, double others, Facts& facts) {
  if (rows_[client.row].get() != &client) return;
  const Group& group = groups_[client.group];
  // Of the others nobody knows where they run. What its own process does beside calls is no other to it: it ends where
  // the call begins, or is its own to trade for.
  const double strangers = std::max(0.0, others - client.beside);
  const double cores = std::max(1.0, group.count * (1 - strangers / processors_));
  MachineLoad::Row& row = machine_->fields().rows[client.row];
  row.cores_milli.store(Milli(cores), std::memory_order_relaxed);
  row.running_milli.store(Milli(group.running), std::memory_order_relaxed);
  row.own_milli.store(Milli(client.demand), std::memory_order_relaxed);
  row.used_milli.store(Milli(client.used), std::memory_order_relaxed);
  const double calls = group.running - client.demand + std::max(1.0, client.running);
  facts.clients.push_back({.pid = client.pid,
                           .running = client.running,
                           .threads = client.threads,
                           .used = client.used,
                           .share = std::max(1.0, cores / calls),
                           .calls_per_s = client.calls_per_s});
}

void LoadBoard::Publish(int64_t now_ns) {
  for (Group& group : groups_) group.demand = group.running = 0;
  double running = 0, threads = 0;
  for (const auto& client : clients_) {
    // Whoever says more than it keeps busy counts for what it keeps busy.
    client->demand = client->is_seen ? std::min(client->running, client->used) : 0;
    groups_[client->group].demand += client->demand;
    running += client->demand;
    threads += client->threads;
  }
  for (Group& group : groups_) {
    for (const size_t i : group.overlapping) group.running += groups_[i].demand;
  }
  const double others = std::min(others_.value_or(0), processors_);
  auto facts =
      std::make_shared<Facts>(Facts{.processors = processors_, .busy = busy_, .others = others_, .clients = {}});
  facts->clients.reserve(clients_.size());
  MutexLock lock(mutex_);
  if (machine_ == nullptr) return;
  for (const auto& client : clients_) WriteRow(*client, others, *facts);
  facts_ = std::move(facts);
  auto& machine = machine_->fields();
  machine.cores_milli.store(Milli(processors_), std::memory_order_relaxed);
  machine.busy_milli.store(Milli(busy_.value_or(0)), std::memory_order_relaxed);
  machine.others_milli.store(Milli(others), std::memory_order_relaxed);
  machine.running_milli.store(Milli(running), std::memory_order_relaxed);
  machine.threads_milli.store(Milli(threads), std::memory_order_relaxed);
  machine.clients.store(static_cast<uint32_t>(clients_.size()), std::memory_order_relaxed);
  machine.written_ns.store(static_cast<uint64_t>(now_ns), std::memory_order_relaxed);
}

}  // namespace ingot::daemon
