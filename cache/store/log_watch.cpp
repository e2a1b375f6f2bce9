// SPDX-License-Identifier: Apache-2.0
#include "cache/store/log_watch.h"

#include <rocksdb/file_system.h>

#include <atomic>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace ingot::cache {

/// The first error, for all files of the opening.
class LogWatch::Seen {
 public:
  explicit Seen(std::function<void(const rocksdb::IOStatus&)> on_error) : on_error_(std::move(on_error)) {}

  void Add(const rocksdb::IOStatus& error) {
    {
      MutexLock lock(mutex_);
      if (has_failed_) return;
      error_ = error;
      has_failed_ = true;
    }
    on_error_(error);
  }
  rocksdb::IOStatus error() const {
    if (!has_failed_) return rocksdb::IOStatus::OK();
    MutexLock lock(mutex_);
    return error_;
  }

 private:
  const std::function<void(const rocksdb::IOStatus&)> on_error_;
  std::atomic<bool> has_failed_{false};
  mutable Mutex mutex_;
  rocksdb::IOStatus error_ GUARDED_BY(mutex_);
};

/// A file that is not written once a sync of a log has failed.
class LogWatch::File : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(std::shared_ptr<Seen> seen, std::unique_ptr<rocksdb::FSWritableFile> target)
      : FSWritableFileOwnerWrapper(std::move(target)), seen_(std::move(seen)) {}
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = seen_->error();
    return status.ok() ? target()->Append(data, options, debug) : status;
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info, rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = seen_->error();
    return status.ok() ? target()->Append(data, options, info, debug) : status;
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = seen_->error();
    return status.ok() ? target()->Sync(options, debug) : status;
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = seen_->error();
    return status.ok() ? target()->Fsync(options, debug) : status;
  }

 protected:
  const std::shared_ptr<Seen> seen_;
};

class LogWatch::Log final : public File {
 public:
  Log(std::shared_ptr<Seen> seen, std::shared_ptr<Newest> newest, std::unique_ptr<rocksdb::FSWritableFile> target);
  ~Log() override;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = File::Append(data, options, debug);
    has_unsynced_ = true;
    return status;
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info, rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = File::Append(data, options, info, debug);
    has_unsynced_ = true;
    return status;
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    has_unsynced_ = false;
    // The next sync of a log that failed may say that it works, and what it lost stays lost.
    return seen_->error().ok() ? Remember(target()->Sync(options, debug)) : rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    has_unsynced_ = false;
    return seen_->error().ok() ? Remember(target()->Fsync(options, debug)) : rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus RangeSync(uint64_t offset, uint64_t bytes, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override {
    return Remember(target()->RangeSync(offset, bytes, options, debug));
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override;

  bool has_unsynced() const { return has_unsynced_; }

 private:
  rocksdb::IOStatus Remember(const rocksdb::IOStatus& synced) {
    if (!synced.ok()) seen_->Add(synced);
    return rocksdb::IOStatus::OK();
  }
  const std::shared_ptr<Newest> newest_;
  std::atomic<bool> has_unsynced_{false};
};

/// The log that is written, while it is open.
class LogWatch::Newest {
 public:
  /// Writers wait while the next log is made, so all that the one before will hold is in it.
  void Sync() {
    MutexLock lock(mutex_);
    if (log_ != nullptr && log_->has_unsynced()) log_->Sync(rocksdb::IOOptions(), nullptr).PermitUncheckedError();
  }
  void Set(Log* log) {
    MutexLock lock(mutex_);
    log_ = log;
  }
  void Forget(const Log* log) {
    MutexLock lock(mutex_);
    if (log_ == log) log_ = nullptr;
  }

 private:
  Mutex mutex_;
  Log* log_ GUARDED_BY(mutex_) = nullptr;
};

LogWatch::Log::Log(std::shared_ptr<Seen> seen, std::shared_ptr<Newest> newest,
                   std::unique_ptr<rocksdb::FSWritableFile> target)
    : File(std::move(seen), std::move(target)), newest_(std::move(newest)) {
  newest_->Set(this);
}
LogWatch::Log::~Log() { newest_->Forget(this); }
rocksdb::IOStatus LogWatch::Log::Close(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) {
  newest_->Forget(this);
  return target()->Close(options, debug);
}

// RocksDB makes all its files with NewWritableFile unless it is told to reuse logs.
class LogWatch::Files final : public rocksdb::FileSystemWrapper {
 public:
  Files(const std::shared_ptr<rocksdb::FileSystem>& target, std::shared_ptr<Seen> seen)
      : FileSystemWrapper(target), seen_(std::move(seen)) {}
  const char* Name() const override { return "ingot.log_watch"; }
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    const bool is_log = path.ends_with(".log");
    if (is_log) newest_->Sync();
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus made = target()->NewWritableFile(path, options, &file, debug);
    if (!made.ok()) return made;
    if (is_log) {
      *result = std::make_unique<Log>(seen_, newest_, std::move(file));
    } else {
      *result = std::make_unique<File>(seen_, std::move(file));
    }
    return made;
  }

 private:
  const std::shared_ptr<Seen> seen_;
  const std::shared_ptr<Newest> newest_ = std::make_shared<Newest>();
};

class LogWatch::Disk final : public rocksdb::EnvWrapper {
 public:
  Disk(rocksdb::Env& target, const std::shared_ptr<Seen>& seen) : EnvWrapper(&target) {
    file_system_ = std::make_shared<Files>(target.GetFileSystem(), seen);
    system_clock_ = target.GetSystemClock();
  }
};

LogWatch::LogWatch(rocksdb::Env& disk, std::function<void(const rocksdb::IOStatus&)> on_error)
    : seen_(std::make_shared<Seen>(std::move(on_error))), disk_(std::make_unique<Disk>(disk, seen_)) {}
LogWatch::~LogWatch() = default;

rocksdb::Env* LogWatch::disk() const { return disk_.get(); }
rocksdb::IOStatus LogWatch::error() const { return seen_->error(); }

}  // namespace ingot::cache
