// SPDX-License-Identifier: Apache-2.0
#include "client/lib/threads/intra_op_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "base/processors.h"
#include "client/lib/threads/of_process.h"

namespace ingot::client {
namespace {

// A launch follows another within a call after microseconds, and calls follow each other within a loop. Both waits are
// longer than it takes to wake a thread, and short beside what the scheduler gives one.
constexpr std::chrono::microseconds kAwaitLaunch{40};
constexpr std::chrono::microseconds kAwaitCall{30};
// What a piece may still need that another thread has begun.
constexpr std::chrono::microseconds kAwaitPieces{10};
constexpr int kPausesBetweenLooks = 32;
/// A thread that could not be made is not asked for by each launch.
constexpr int64_t kStartAgainNs = 1'000'000'000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A wait without sleep that ends.
class Spin {
 public:
  explicit Spin(std::chrono::microseconds most) : most_(most) {}
  /// False once the time is over.
  bool Once() {
    Pause();
    if (++pauses_ % kPausesBetweenLooks != 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (until_ == std::chrono::steady_clock::time_point()) until_ = now + most_;
    return now < until_;
  }
  void Again() {
    pauses_ = 0;
    until_ = {};
  }

 private:
  const std::chrono::microseconds most_;
  unsigned pauses_ = 0;
  std::chrono::steady_clock::time_point until_;
};

void Await(sem_t& semaphore) {
  while (sem_wait(&semaphore) != 0 && errno == EINTR) {
  }
}

std::atomic<IntraOpPool*> pool_of_process = nullptr;

/// How the calling thread rounds and what it does with denormals: a row does not depend on who computes it.
uint64_t FloatControl() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr();
#elif defined(__aarch64__)
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
#else
  return 0;
#endif
}

void SetFloatControl([[maybe_unused]] uint64_t control) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(control));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(control));
#endif
}

/// What is a mode and no flag of what has happened.
#if defined(__x86_64__)
constexpr uint64_t kFloatModes = 0xffc0;
#else
constexpr uint64_t kFloatModes = ~uint64_t{0};
#endif

// A ticket is the number of a launch and how many of its units are claimed.
constexpr uint64_t kUnitsMax = 0x7fffffff;
constexpr uint64_t kNoUnits = 0xffffffff;
constexpr uint64_t UnitsOf(uint64_t ticket) { return ticket & 0xffffffff; }

}  // namespace

/// One call, as the threads see it that work for it. What a launch is lies between two tickets, as behind a seqlock: a
/// claim that succeeds was made of what the ticket belongs to. Never freed, so that late threads may look.
struct alignas(64) IntraOpPool::Team {
  Team() { sem_init(&ended, 0, 0); }
  ~Team() { sem_destroy(&ended); }

  std::atomic<uint64_t> ticket = kNoUnits;
  std::atomic<uint64_t> units = 0;
  std::atomic<int64_t> rows = 0, rows_per_unit = 1;
  std::atomic<uint64_t> grain = 1;  // units
  std::atomic<int> threads = 1;
  std::atomic<Body> body = nullptr;
  std::atomic<void*> state = nullptr;
  std::atomic<uint64_t> modes = 0;  // the caller's, of floating-point
  std::atomic<bool> is_open = false;
  alignas(64) std::array<std::atomic<uint64_t>, kThreadsMax / 64> taken{};  // seats; bit 0 is seat 1
  alignas(64) std::atomic<uint64_t> done = 0;  // units, the caller's apart
  std::atomic<bool> is_awaited = false;
  sem_t ended;

  struct Piece {
    uint64_t units = 0;
    Body body = nullptr;
    void* state = nullptr;
    uint64_t modes = 0;
    int64_t begin = 0, end = 0;
  };
  /// The next piece, larger ones first; none: all are claimed, or `seat` may not take part.
  bool Claim(int seat, Piece& piece);
  void Offer(int64_t all_rows, int64_t least, int most_threads, Body what, void* with);
  /// A seat of the launch that nobody has; 0: there is none.
  int TakeSeat();
  void LeaveSeat(int seat) { Taken(seat).fetch_and(~BitOf(seat), std::memory_order_release); }
  int SeatsTaken() const {
    int count = 0;
    for (const auto& some : taken) count += std::popcount(some.load(std::memory_order_relaxed));
    return count;
  }
  bool HasPieces() const { return UnitsOf(ticket.load()) < units.load(); }
  std::atomic<uint64_t>& Taken(int seat) { return taken[static_cast<size_t>(seat - 1) / 64]; }
  static uint64_t BitOf(int seat) { return uint64_t{1} << (static_cast<size_t>(seat - 1) % 64); }
  void Await(uint64_t others);
};

bool IntraOpPool::Team::Claim(int seat, Piece& piece) {
  uint64_t at = ticket.load(std::memory_order_acquire);
  while (true) {
    const uint64_t claimed = UnitsOf(at), all = units.load(std::memory_order_acquire);
    if (claimed >= all || seat >= threads.load(std::memory_order_acquire)) return false;
    const auto parts = 2 * static_cast<uint64_t>(threads.load(std::memory_order_acquire));
    const uint64_t left = all - claimed;
    piece.units = std::min(left, std::max(grain.load(std::memory_order_acquire), left / parts));
    // A rest that is not worth a claim of its own goes along.
    if (left - piece.units < grain.load(std::memory_order_relaxed) / 2) piece.units = left;
    const int64_t per_unit = rows_per_unit.load(std::memory_order_acquire);
    piece.begin = static_cast<int64_t>(claimed) * per_unit;
    piece.end =
        std::min(piece.begin + static_cast<int64_t>(piece.units) * per_unit, rows.load(std::memory_order_acquire));
    piece.body = body.load(std::memory_order_acquire);
    piece.state = state.load(std::memory_order_acquire);
    piece.modes = modes.load(std::memory_order_acquire);
    if (ticket.compare_exchange_weak(at, at + piece.units, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return true;
    }
  }
}

int IntraOpPool::Team::TakeSeat() {
  const int most = threads.load(std::memory_order_relaxed) - 1;
  for (int seat = 1; seat <= most; ++seat) {
    uint64_t some = Taken(seat).load(std::memory_order_relaxed);
    if ((some & BitOf(seat)) != 0) continue;
    some = Taken(seat).fetch_or(BitOf(seat), std::memory_order_acquire);
    if ((some & BitOf(seat)) == 0) return seat;
  }
  return 0;
}

void IntraOpPool::Team::Offer(int64_t all_rows, int64_t least, int most_threads, Body what, void* with) {
  const uint64_t launch = (ticket.load(std::memory_order_relaxed) >> 32) + 1;
  // Nobody can claim while this is written; release, so that who sees a part of it sees that as well.
  ticket.store(launch << 32 | kNoUnits, std::memory_order_relaxed);
  const int64_t per_unit = all_rows / static_cast<int64_t>(kUnitsMax) + 1;
  rows.store(all_rows, std::memory_order_release);
  rows_per_unit.store(per_unit, std::memory_order_release);
  units.store(static_cast<uint64_t>((all_rows + per_unit - 1) / per_unit), std::memory_order_release);
  grain.store(static_cast<uint64_t>(std::max<int64_t>(1, least / per_unit)), std::memory_order_release);
  threads.store(most_threads, std::memory_order_release);
  body.store(what, std::memory_order_release);
  state.store(with, std::memory_order_release);
  modes.store(FloatControl() & kFloatModes, std::memory_order_release);
  done.store(0, std::memory_order_relaxed);
  ticket.store((launch + 1) << 32, std::memory_order_release);
}

/// Until other threads have done as many units. A thread that holds a piece may have lost its processor: the caller
/// gives its own away then.
void IntraOpPool::Team::Await(uint64_t others) {
  for (Spin spin(kAwaitPieces); done.load(std::memory_order_acquire) != others;) {
    if (spin.Once()) continue;
    is_awaited.store(true);
    // Whoever takes the flag back owes, or has, a post.
    if (done.load() != others || !is_awaited.exchange(false)) ingot::client::Await(ended);
  }
}

IntraOpPool::IntraOpPool() : teams_(std::make_unique<std::array<Team, kTeams>>()) { sem_init(&called_, 0, 0); }

IntraOpPool::~IntraOpPool() {
  ends_ = true;
  const int count = started_.load();
  for (int i = 0; i < count; ++i) sem_post(&called_);
  while (started_.load(std::memory_order_acquire) != 0) sched_yield();
  sem_destroy(&called_);
}

// In a child of fork none of the threads is there; calls that were under way go on with the pool that they know. When
// the library is loaded, and not with the first call, in whose middle another thread may fork.
[[maybe_unused]] const int kPoolIsLeftToParent =
    pthread_atfork(nullptr, nullptr, [] { pool_of_process.store(nullptr); });

IntraOpPool& IntraOpPool::Instance() { return OfProcess(pool_of_process); }

IntraOpPool::Team* IntraOpPool::Open() {
  uint64_t free = free_.load(std::memory_order_relaxed);
  while (free != 0) {
    const int at = std::countr_zero(free);
    if (!free_.compare_exchange_weak(free, free & ~(uint64_t{1} << at), std::memory_order_acquire)) continue;
    Team& team = (*teams_)[static_cast<size_t>(at)];
    team.is_open.store(true, std::memory_order_relaxed);
    return &team;
  }
  return nullptr;
}

void IntraOpPool::Close(Team& team) {
  const uint64_t bit = uint64_t{1} << (&team - teams_->data());
  team.is_open.store(false, std::memory_order_relaxed);
  open_.fetch_and(~bit, std::memory_order_relaxed);
  free_.fetch_or(bit, std::memory_order_release);
}

void IntraOpPool::Call::Run(int64_t rows, int64_t grain, int threads, int seats, Body body, void* state) {
  threads = static_cast<int>(std::min<int64_t>({threads, seats, kThreadsMax, (rows + grain - 1) / grain}));
  if (threads > 1 && team_ == nullptr) team_ = pool_.Open();
  if (threads <= 1 || team_ == nullptr) return body(state, 0, rows, 0);
  Team& team = *team_;
  if (threads - 1 > wanted_) {
    pool_.wanted_.fetch_add(threads - 1 - wanted_, std::memory_order_relaxed);
    wanted_ = threads - 1;
  }
  team.Offer(rows, grain, threads, body, state);
  const uint64_t bit = uint64_t{1} << (team_ - pool_.teams_->data());
  if ((pool_.open_.load(std::memory_order_relaxed) & bit) == 0) pool_.open_.fetch_or(bit);
  const int missing = threads - 1 - team.SeatsTaken();
  if (missing > 0) pool_.Summon(missing);
  uint64_t own = 0;
  for (Team::Piece piece; team.Claim(0, piece);) {
    body(state, piece.begin, piece.end, 0);
    own += piece.units;
  }
  team.Await(team.units.load(std::memory_order_relaxed) - own);
}

/// Wakes as many threads; starts those that the calls which are under way could use, and that are not there.
void IntraOpPool::Summon(int count) {
  // What was offered comes before who sleeps: else both might miss each other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  int sleeping = sleeping_.load();
  while (sleeping > 0) {
    const int some = std::min(sleeping, count);
    if (!sleeping_.compare_exchange_weak(sleeping, sleeping - some)) continue;
    for (int i = 0; i < some; ++i) sem_post(&called_);
    return;
  }
  const int wanted = std::min(wanted_.load(std::memory_order_relaxed), kThreadsMax - 1);
  if (started_.load(std::memory_order_relaxed) < wanted) Start(wanted);
}

/// Until there are `count` threads, or the system makes no more: then calls do with what there is for a while.
void IntraOpPool::Start(int count) {
  const int64_t from_ns = start_from_ns_.load(std::memory_order_relaxed);
  if (from_ns != 0 && SystemClock().steady_ns() < from_ns) return;
  if (starting_.exchange(true, std::memory_order_acquire)) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (started_.load(std::memory_order_relaxed) < count) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const auto work = [](void* pool) -> void* {
      pthread_setname_np(pthread_self(), "ingot-intra-op");
      UseProcessorsOf(getpid());  // Whoever started it may be bound to a few.
      static_cast<IntraOpPool*>(pool)->Work();
      return nullptr;
    };
    started_.fetch_add(1);
    const int failed = pthread_create(&thread, &attributes, work, this);
    pthread_attr_destroy(&attributes);
    if (failed != 0) {
      started_.fetch_sub(1);
      if (start_from_ns_.exchange(SystemClock().steady_ns() + kStartAgainNs, std::memory_order_relaxed) == 0) {
        LogWarn("no thread can be started; calls run on fewer", {{"reason", std::strerror(failed)}});
      }
      break;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  starting_.store(false, std::memory_order_release);
}

void IntraOpPool::Work() {
  // Threads begin to look at places of their own, so that calls get some each.
  static std::atomic<unsigned> threads = 0;
  const unsigned first = threads.fetch_add(1, std::memory_order_relaxed) % kTeams;
  Spin spin(kAwaitCall);
  while (!ends_.load(std::memory_order_relaxed)) {
    if (JoinOne(first)) {
      spin.Again();
    } else if (!spin.Once()) {
      Sleep();
      spin.Again();
    }
  }
  started_.fetch_sub(1, std::memory_order_release);
}

bool IntraOpPool::JoinOne(unsigned first) {
  for (uint64_t open = std::rotr(open_.load(std::memory_order_acquire), static_cast<int>(first)); open != 0;
       open &= open - 1) {
    Team& team = (*teams_)[(static_cast<unsigned>(std::countr_zero(open)) + first) % kTeams];
    if (!team.HasPieces()) continue;
    const int seat = team.TakeSeat();
    if (seat == 0) continue;
    Serve(team, seat);
    team.LeaveSeat(seat);
    return true;
  }
  return false;
}

/// Until the call has ended, or has offered nothing for a while, or takes fewer threads than it has.
void IntraOpPool::Serve(Team& team, int seat) {
  Spin spin(kAwaitLaunch);
  while (true) {
    if (Team::Piece piece; team.Claim(seat, piece)) {
      if ((FloatControl() & kFloatModes) != piece.modes) SetFloatControl(piece.modes);
      piece.body(piece.state, piece.begin, piece.end, seat);
      team.done.fetch_add(piece.units);
      if (team.is_awaited.load() && team.is_awaited.exchange(false)) sem_post(&team.ended);
      spin.Again();
      continue;
    }
    if (!team.is_open.load(std::memory_order_relaxed) || !spin.Once() ||
        seat >= team.threads.load(std::memory_order_relaxed)) {
      return;
    }
  }
}

void IntraOpPool::Sleep() {
  sleeping_.fetch_add(1);
  // What was offered before it could be called is seen here, or calls it: then there is a post to take.
  const uint64_t open = open_.load();
  bool is_needed = ends_.load();
  for (size_t at = 0; at < kTeams && !is_needed; ++at) {
    const Team& team = (*teams_)[at];
    is_needed = (open >> at & 1) != 0 && team.HasPieces() && team.SeatsTaken() < team.threads.load() - 1;
  }
  int sleeping = sleeping_.load();
  while (is_needed && sleeping > 0) {
    if (sleeping_.compare_exchange_weak(sleeping, sleeping - 1)) return;
  }
  Await(called_);
}

}  // namespace ingot::client
