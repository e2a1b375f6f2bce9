// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ingot::proto {

/// Pages of memory by which processes of one machine share its processors (docs/format/load.md): each client writes one
/// of its own, and the daemon reads it; the daemon writes another one, which every client reads. Nobody waits for
/// anybody, and nothing in a page is believed further than docs/format/load.md says.
///
/// Both are memory files of kLoadPageBytes that can neither shrink nor grow. Milli: thousandths of a processor.
constexpr size_t kLoadPageBytes = 4096;
constexpr uint64_t kClientLoadMagic = 0x31414f4c43474e49;  // "INGCLOA1"
constexpr uint64_t kMachineLoadMagic = 0x31414f4c4d474e49;  // "INGMLOA1"

/// Of one client.
struct ClientLoad {
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> running;  ///< calls that compute now
  std::atomic<uint32_t> threads;  ///< that they have, callers among them
  std::atomic<uint64_t> calls;  ///< that have begun
};

/// Of the machine.
struct MachineLoad {
  /// What the daemon holds of one client, averaged over some tens of milliseconds.
  struct Row {
    std::atomic<uint32_t> cores_milli;  ///< processors for calls of all clients that may run where this one may
    std::atomic<uint32_t> running_milli;  ///< calls of these clients, this one's among them
    std::atomic<uint32_t> own_milli;  ///< calls of this one
    std::atomic<uint32_t> used_milli;  ///< processors that this one has used
    std::atomic<uint32_t> holder;  ///< whose row it is: HelloReply.load_holder
  };
  static constexpr size_t kRows = 200;

  std::atomic<uint64_t> magic;
  std::atomic<uint64_t> written_ns;  ///< CLOCK_MONOTONIC when all of it was last brought up to date
  std::atomic<uint32_t> cores_milli;  ///< processors of the machine
  std::atomic<uint32_t> busy_milli;  ///< of them at work
  std::atomic<uint32_t> others_milli;  ///< of them at work for what is no call
  std::atomic<uint32_t> running_milli;
  std::atomic<uint32_t> threads_milli;
  std::atomic<uint32_t> clients;
  std::array<std::atomic<uint32_t>, 4> unused;
  std::array<Row, kRows> rows;
};

static_assert(sizeof(ClientLoad) <= kLoadPageBytes && sizeof(MachineLoad) <= kLoadPageBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace ingot::proto
