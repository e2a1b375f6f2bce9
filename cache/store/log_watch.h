// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/io_status.h>

#include <functional>
#include <memory>

namespace ingot::cache {

/// The disk as one opening of a RocksDB uses it. Answers for the syncs of its logs:
///
/// - A sync that fails is kept from RocksDB, which touches such a log once more and, built with assertions as Debian's
///   7.8 is, aborts then. From then on nothing is written: no table and no list of tables counts on what a log may have
///   lost. Whoever acknowledges a write asks error() first. Only a new opening, which reads the logs and writes what
///   they hold to tables, knows what is on the disk.
/// - A log begins once all of the one before is synced, so that a loss of power cannot keep the newer of two alone.
///
/// Thread-safe.
class LogWatch {
 public:
  /// `disk` must outlive it. `on_error` is called once, before RocksDB goes on, from whichever thread met the error; it
  /// must not wait.
  LogWatch(rocksdb::Env& disk, std::function<void(const rocksdb::IOStatus&)> on_error);
  ~LogWatch();
  LogWatch(const LogWatch&) = delete;
  LogWatch& operator=(const LogWatch&) = delete;

  /// What RocksDB must use. Lives as long as this.
  rocksdb::Env* disk() const;
  /// What the first sync of a log that failed said; OK: none did. After a write that RocksDB says is synced: whether
  /// it is.
  rocksdb::IOStatus error() const;

 private:
  class Seen;
  class File;
  class Log;
  class Newest;
  class Files;
  class Disk;
  const std::shared_ptr<Seen> seen_;
  const std::unique_ptr<Disk> disk_;
};

}  // namespace ingot::cache
