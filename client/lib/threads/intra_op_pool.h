// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace ingot::client {

/// The threads of this process that its calls share.
///
/// What a call runs on several threads is offered in pieces: threads that are free claim some, and the caller goes on
/// with whatever nobody has begun, so that no call waits for a thread that has not started. A thread that has joined a
/// call looks out for its next launch for a bounded time before it sleeps. Thread-safe.
class IntraOpPool {
 public:
  /// Computes rows [begin, end). `seat` is another one for each thread that works for a call at once: 0 the caller's,
  /// then those of the pool's threads. Throws nothing.
  using Body = void (*)(void* state, int64_t begin, int64_t end, int seat);

  /// Of this process: made when it is first asked for, and anew in a child of fork.
  static IntraOpPool& Instance();
  /// Threads beyond this are of no use to a call.
  static constexpr int kThreadsMax = 256;

  IntraOpPool();
  IntraOpPool(const IntraOpPool&) = delete;
  IntraOpPool& operator=(const IntraOpPool&) = delete;
  /// Ends its threads; no call may be under way.
  ~IntraOpPool();

  /// Threads that were started, callers apart.
  int started() const { return started_.load(std::memory_order_relaxed); }

  class Call;

 private:
  struct Team;
  /// Calls that share work at once; one more runs on its caller alone.
  static constexpr int kTeams = 64;

  Team* Open();
  void Close(Team& team);
  void Summon(int count);
  void Start(int count);
  void Work();
  bool JoinOne(unsigned first);
  void Serve(Team& team, int seat);
  void Sleep();

  std::unique_ptr<std::array<Team, kTeams>> teams_;
  alignas(64) std::atomic<uint64_t> free_ = ~uint64_t{0};  ///< teams that no call has
  alignas(64) std::atomic<uint64_t> open_ = 0;  ///< teams that threads may join
  alignas(64) std::atomic<int> sleeping_ = 0;  ///< that nobody has called yet
  alignas(64) std::atomic<int> wanted_ = 0;  ///< by all calls that are under way
  sem_t called_;
  std::atomic<int> started_ = 0;
  std::atomic<bool> starting_ = false;
  std::atomic<int64_t> start_from_ns_ = 0;  ///< no thread could be made: when it is tried again
  std::atomic<bool> ends_ = false;
};

/// What one call of a plan uses of the pool. Belongs to the call's thread; costs nothing before its first launch on
/// several threads.
class IntraOpPool::Call {
 public:
  explicit Call(IntraOpPool& pool) : pool_(pool) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (team_ == nullptr) return;
    pool_.wanted_.fetch_sub(wanted_, std::memory_order_relaxed);
    pool_.Close(*team_);
  }

  /// Calls `body` for pieces of [0, rows), each of `grain` rows or more but for the last, until all are done: on up to
  /// `threads` threads, whose seats are below `seats`.
  void Run(int64_t rows, int64_t grain, int threads, int seats, Body body, void* state);

 private:
  IntraOpPool& pool_;
  Team* team_ = nullptr;
  int wanted_ = 0;  // threads of the pool
};

}  // namespace ingot::client
