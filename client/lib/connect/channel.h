// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "proto/frame.h"
#include "proto/service_generated.h"

namespace ingot::client {

/// One socket to a daemon on which many threads may ask at once; replies come in any order.
///
/// No thread of its own: of those that wait, one reads and hands the others what is theirs.
/// Once broken it stays so. Thread-safe.
class Channel {
 public:
  static constexpr int kConnectMsMax = 10'000;
  /// kUnavailable: nobody listens at `path`, or somebody of another user than `uid` does; kTimeout: it takes no
  /// connection.
  static Result<std::shared_ptr<Channel>> Connect(const std::string& path, int ms_max = kConnectMsMax,
                                                  uid_t uid = geteuid());
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

  /// Sends and waits for the reply; `deadline_ms` < 0 waits for ever. An error reply of the daemon
  /// is returned as that error. kUnavailable: the daemon is gone; kTimeout: a late reply is
  /// dropped.
  /// `files`: descriptors that go with it.
  Result<proto::Frame> Call(proto::MessageType type, Bytes body, int deadline_ms, const std::vector<int>& files = {});
  bool broken() const;
  /// Broken by a daemon that said so first: what it had not answered it had not begun, and may be asked again.
  bool parted() const;

 private:
  struct Slot {
    std::optional<proto::Frame> frame;
  };

  Status Send(proto::MessageType type, uint32_t request, Bytes body, proto::Deadline deadline,
              const std::vector<int>& files) EXCLUDES(mutex_);
  Result<proto::Frame> Await(uint32_t request, proto::Deadline deadline) EXCLUDES(mutex_);
  void ReadOne(proto::Deadline deadline) REQUIRES(mutex_);
  void WaitForChange(proto::Deadline deadline) REQUIRES(mutex_);
  void Break(const Error& reason) REQUIRES(mutex_);

  const UniqueFd socket_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<uint32_t, Slot> waiting_ GUARDED_BY(mutex_);
  uint32_t next_request_ GUARDED_BY(mutex_) = 1;
  bool reading_ GUARDED_BY(mutex_) = false;
  bool sending_ GUARDED_BY(mutex_) = false;
  std::optional<Error> broken_ GUARDED_BY(mutex_);
  bool parted_ GUARDED_BY(mutex_) = false;
};

}  // namespace ingot::client
