// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "client/lib/connect/connection.h"

namespace ingot::bench {

/// What a process holds, as the kernel says.
struct Held {
  uint64_t anonymous_bytes = 0;  ///< Resident memory that is of no file.
  uint64_t file_bytes = 0;       ///< Resident pages of programs and libraries.
  uint64_t memory_file_bytes = 0;
  uint64_t descriptors = 0;
  uint64_t threads = 0;
  double cpu_s = 0;

  uint64_t all_bytes() const { return anonymous_bytes + file_bytes + memory_file_bytes; }
};
Held HeldBy(pid_t pid);
std::string Describe(const Held& held);

/// A daemon of a store, as clients start it, whose graphs are words.
class DaemonProcess {
 public:
  DaemonProcess(std::string store_dir, std::vector<std::string> arguments)
      : store_dir_(std::move(store_dir)), arguments_(std::move(arguments)) {}
  ~DaemonProcess() { Stop(); }

  /// A connection to it; starts it when it does not run.
  Result<std::unique_ptr<client::Connection>> Connect();
  /// Returns once the process is gone.
  void Stop();
  /// Waits until it does nothing for a second.
  void Settle();
  /// The kernel forgets what it holds of the store's files; they are read from the disk again.
  void ForgetPages() const;
  pid_t pid() const { return pid_; }
  const std::string& socket() const { return socket_; }

 private:
  client::ConnectionOptions Options() const;

  const std::string store_dir_;
  const std::vector<std::string> arguments_;
  pid_t pid_ = 0;
  std::string socket_;
};

}  // namespace ingot::bench
