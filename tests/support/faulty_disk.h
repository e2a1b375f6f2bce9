// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ingot {

/// What happens to the disk under a call.
enum class DiskCall : uint8_t { kCreate, kAppend, kSync, kRename, kRemove, kSyncDirectory, kRead };
/// Which of RocksDB's files.
enum class DiskFile : uint8_t { kLog, kTable, kBlob, kManifest, kCurrent, kOther };

inline DiskFile KindOf(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".log")) return DiskFile::kLog;
  if (name.ends_with(".sst")) return DiskFile::kTable;
  if (name.ends_with(".blob")) return DiskFile::kBlob;
  if (name.starts_with("MANIFEST")) return DiskFile::kManifest;
  // CURRENT is written beside and renamed.
  if (name == "CURRENT" || name.ends_with(".dbtmp")) return DiskFile::kCurrent;
  return DiskFile::kOther;
}

/// The calls that fail, and how.
struct DiskFault {
  /// Which of the calls that match fail: from this one on, counted from 1; 0: none.
  uint64_t first = 0;
  uint64_t count = UINT64_MAX;
  /// Bit n: DiskCall n, DiskFile n.
  uint32_t calls = 0b0111111;
  uint32_t files = 0b0111111;
  enum class How : uint8_t {
    kNoSpace,
    kError,
    kRetryable,  ///< an error that RocksDB may take for one that goes by
    kTorn,       ///< appends half of it and then fails; kError elsewhere
    kShort,      ///< reads half of it and says nothing
    kFlipped,    ///< reads it with one bit flipped and says nothing
  };
  How how = How::kError;
  bool Matches(DiskCall call, DiskFile file) const {
    return (calls >> static_cast<int>(call) & 1) != 0 && (files >> static_cast<int>(file) & 1) != 0;
  }
};

/// A file system for one RocksDB directory over the machine's: calls fail as the test says, and power can be lost: what
/// was not synced goes, also names in the directory. Files only grow here, as RocksDB's do. Thread-safe.
class FaultyDisk final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyDisk(std::string directory)
      : FileSystemWrapper(rocksdb::FileSystem::Default()),
        directory_(std::move(directory)),
        removed_(directory_ + ".removed") {
    // What is there already is on the disk.
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(directory_, none)) {
      const File file{entry.path().string(), entry.file_size(), entry.file_size()};
      live_[entry.path().filename().string()] = std::make_shared<File>(file);
    }
    durable_ = live_;
  }
  ~FaultyDisk() override {
    std::error_code ignored;
    std::filesystem::remove_all(removed_, ignored);
  }
  const char* Name() const override { return "ingot.faulty_disk"; }

  void Fail(const DiskFault& fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
    matched_ = 0;
    failed_ = 0;
  }
  void Work() { Fail({}); }
  /// Called by each call that fails, before it does; must not use the disk.
  void OnFault(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    on_fault_ = std::move(call);
  }
  /// Calls that matched the fault so far, and those of them that failed.
  uint64_t matched() const {
    const std::lock_guard lock(mutex_);
    return matched_;
  }
  uint64_t failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }

  enum class Loss : uint8_t {
    kUnsynced,  ///< all that was not synced
    kPart,  ///< of names and of the end of each file, a random part stays
    kTorn,  ///< as kPart, and the last page of what was not synced is zeros
    kNewestLog,  ///< all that was not synced, but names and the end of the newest log
  };
  /// Puts the directory to what a loss of power at the first failed call left (or now, where none failed). Nobody may
  /// have it open.
  void LosePower(Loss loss, uint64_t seed) {
    const std::lock_guard lock(mutex_);
    std::mt19937_64 random(seed);
    Names names = durable_;
    std::string newest_log;
    if (loss != Loss::kUnsynced) {
      const size_t kept = loss == Loss::kNewestLog ? changes_.size() : random() % (changes_.size() + 1);
      for (size_t i = 0; i < kept; ++i) changes_[i].Do(names);
    }
    for (const auto& [name, file] : names) {
      if (loss == Loss::kNewestLog && KindOf(name) == DiskFile::kLog) newest_log = std::max(newest_log, name);
    }
    const std::string after = directory_ + ".after";
    std::filesystem::remove_all(after);
    std::filesystem::create_directory(after);
    std::filesystem::permissions(after, std::filesystem::perms::owner_all);
    for (auto& [name, file] : names) {
      uint64_t size = file->synced;
      if (loss == Loss::kPart || loss == Loss::kTorn) size += random() % (file->size - file->synced + 1);
      if (name == newest_log) size = file->size;
      std::ifstream in(file->place, std::ios::binary);
      std::string bytes((std::istreambuf_iterator<char>(in)), {});
      if (bytes.size() > size) bytes.resize(size);
      if (loss == Loss::kTorn) {
        const uint64_t page = std::max(size / kPage * kPage, file->synced);
        for (uint64_t i = page; i < bytes.size(); ++i) bytes[i] = 0;
      }
      std::ofstream(after + "/" + name, std::ios::binary) << bytes;
      *file = {directory_ + "/" + name, bytes.size(), bytes.size()};
    }
    std::filesystem::remove_all(directory_);
    std::filesystem::remove_all(removed_);
    std::filesystem::rename(after, directory_);
    durable_ = names;
    live_ = std::move(names);
    changes_.clear();
  }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    const std::lock_guard lock(mutex_);
    if (auto status = Check(DiskCall::kCreate, path); !status.ok()) return status;
    std::unique_ptr<rocksdb::FSWritableFile> file;
    Keep(path, /*is_truncated=*/true);
    if (auto status = target()->NewWritableFile(path, options, &file, debug); !status.ok()) return status;
    const auto state = std::make_shared<File>(File{path, 0, 0});
    Change({NameOf(path), state});
    *result = std::make_unique<Writer>(*this, path, state, std::move(file));
    return rocksdb::IOStatus::OK();
  }
  // Neither is used with the options of a store; what they did could not be followed.
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions&,
                                       std::unique_ptr<rocksdb::FSWritableFile>*, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::NotSupported(path);
  }
  rocksdb::IOStatus ReuseWritableFile(const std::string& path, const std::string&, const rocksdb::FileOptions&,
                                      std::unique_ptr<rocksdb::FSWritableFile>*, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::NotSupported(path);
  }
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    const std::lock_guard lock(mutex_);
    if (auto status = Check(DiskCall::kRemove, path); !status.ok()) return status;
    Keep(path);
    if (auto status = target()->DeleteFile(path, options, debug); !status.ok()) return status;
    Change({NameOf(path), nullptr});
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    const std::lock_guard lock(mutex_);
    if (auto status = Check(DiskCall::kRename, to); !status.ok()) return status;
    Keep(to);
    if (auto status = target()->RenameFile(from, to, options, debug); !status.ok()) return status;
    const auto found = live_.find(NameOf(from));
    if (found == live_.end()) return rocksdb::IOStatus::OK();
    const std::shared_ptr<File> file = found->second;
    file->place = to;
    NameChange rename{NameOf(to), file};
    rename.from = NameOf(from);
    Change(rename);
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSDirectory> directory;
    if (auto status = target()->NewDirectory(path, options, &directory, debug); !status.ok()) return status;
    *result = std::make_unique<Directory>(*this, std::move(directory));
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    if (auto status = target()->NewRandomAccessFile(path, options, &file, debug); !status.ok()) return status;
    *result = std::make_unique<Reader>(*this, path, std::move(file));
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* result,
                                      rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSSequentialFile> file;
    if (auto status = target()->NewSequentialFile(path, options, &file, debug); !status.ok()) return status;
    *result = std::make_unique<SequentialReader>(*this, path, std::move(file));
    return rocksdb::IOStatus::OK();
  }

 private:
  static constexpr uint64_t kPage = 4096;

  struct File {
    std::string place;  // where its bytes are now
    uint64_t size = 0;
    uint64_t synced = 0;
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;
  /// One change of the directory: `name` is `file` from now on, or gone.
  struct NameChange {
    std::string name;
    std::shared_ptr<File> file;
    std::string from = {};
    void Do(Names& names) const {
      if (!from.empty()) names.erase(from);
      if (file == nullptr) {
        names.erase(name);
      } else {
        names[name] = file;
      }
    }
  };

  class Writer final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    Writer(FaultyDisk& disk, std::string path, std::shared_ptr<File> file,
           std::unique_ptr<rocksdb::FSWritableFile> target)
        : FSWritableFileOwnerWrapper(std::move(target)), disk_(disk), path_(std::move(path)), file_(std::move(file)) {}
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      const std::lock_guard lock(disk_.mutex_);
      if (auto status = disk_.Check(DiskCall::kAppend, path_); !status.ok()) {
        if (disk_.fault_.how != DiskFault::How::kTorn || disk_.failed_ != 1) return status;
        const rocksdb::Slice half(data.data(), data.size() / 2);
        if (target()->Append(half, options, debug).ok()) file_->size += half.size();
        return status;
      }
      auto status = target()->Append(data, options, debug);
      if (status.ok()) file_->size += data.size();
      return status;
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* debug) override {
      return Append(data, options, debug);
    }
    // Whether the machine's disk has it does not matter here, and waiting for it takes time.
    rocksdb::IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
      const std::lock_guard lock(disk_.mutex_);
      if (auto status = disk_.Check(DiskCall::kSync, path_); !status.ok()) return status;
      file_->synced = file_->size;
      return rocksdb::IOStatus::OK();
    }
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
      return Sync(options, debug);
    }

   private:
    FaultyDisk& disk_;
    const std::string path_;
    const std::shared_ptr<File> file_;
  };

  class Directory final : public rocksdb::FSDirectoryWrapper {
   public:
    Directory(FaultyDisk& disk, std::unique_ptr<rocksdb::FSDirectory> target)
        : FSDirectoryWrapper(std::move(target)), disk_(disk) {}
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
      const std::lock_guard lock(disk_.mutex_);
      if (auto status = disk_.Check(DiskCall::kSyncDirectory, ""); !status.ok()) return status;
      disk_.durable_ = disk_.live_;
      disk_.changes_.clear();
      return rocksdb::IOStatus::OK();
    }
    rocksdb::IOStatus FsyncWithDirOptions(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug,
                                          const rocksdb::DirFsyncOptions&) override {
      return Fsync(options, debug);
    }

   private:
    FaultyDisk& disk_;
  };

  class Reader final : public rocksdb::FSRandomAccessFileOwnerWrapper {
   public:
    Reader(FaultyDisk& disk, std::string path, std::unique_ptr<rocksdb::FSRandomAccessFile> target)
        : FSRandomAccessFileOwnerWrapper(std::move(target)), disk_(disk), path_(std::move(path)) {}
    rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                           char* scratch, rocksdb::IODebugContext* debug) const override {
      auto status = target()->Read(offset, n, options, result, scratch, debug);
      return disk_.Spoil(path_, std::move(status), result, scratch);
    }
    rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const rocksdb::IOOptions& options,
                                rocksdb::IODebugContext* debug) override {
      for (size_t i = 0; i < count; ++i) {
        rocksdb::FSReadRequest& request = requests[i];
        request.status = Read(request.offset, request.len, options, &request.result, request.scratch, debug);
      }
      return rocksdb::IOStatus::OK();
    }
    rocksdb::IOStatus Prefetch(uint64_t, size_t, const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
      return rocksdb::IOStatus::NotSupported("prefetch");
    }

   private:
    FaultyDisk& disk_;
    const std::string path_;
  };

  class SequentialReader final : public rocksdb::FSSequentialFileOwnerWrapper {
   public:
    SequentialReader(FaultyDisk& disk, std::string path, std::unique_ptr<rocksdb::FSSequentialFile> target)
        : FSSequentialFileOwnerWrapper(std::move(target)), disk_(disk), path_(std::move(path)) {}
    rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                           rocksdb::IODebugContext* debug) override {
      auto status = target()->Read(n, options, result, scratch, debug);
      return disk_.Spoil(path_, std::move(status), result, scratch);
    }

   private:
    FaultyDisk& disk_;
    const std::string path_;
  };

  static std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  // The methods below need the mutex.
  rocksdb::IOStatus Check(DiskCall call, const std::string& path) {
    if (fault_.first == 0 || !fault_.Matches(call, KindOf(path))) return rocksdb::IOStatus::OK();
    if (++matched_ < fault_.first || matched_ - fault_.first >= fault_.count) return rocksdb::IOStatus::OK();
    ++failed_;
    if (on_fault_) on_fault_();
    if (fault_.how == DiskFault::How::kNoSpace) {
      auto status = rocksdb::IOStatus::NoSpace("injected", path);
      status.SetRetryable(true);  // as RocksDB's own file system says
      return status;
    }
    auto status = rocksdb::IOStatus::IOError("injected", path);
    status.SetRetryable(fault_.how == DiskFault::How::kRetryable);
    return status;
  }
  /// A name that is about to go keeps its bytes elsewhere: a loss of power may bring it back.
  void Keep(const std::string& path, bool is_truncated = false) {
    const auto found = live_.find(NameOf(path));
    if (found == live_.end()) return;
    std::filesystem::create_directories(removed_);
    const std::string place = removed_ + "/" + std::to_string(removals_++);
    std::error_code code;
    if (is_truncated) {
      std::filesystem::rename(found->second->place, place, code);
    } else {
      std::filesystem::create_hard_link(found->second->place, place, code);
    }
    if (!code) found->second->place = place;
  }
  void Change(NameChange change) {
    change.Do(live_);
    changes_.push_back(std::move(change));
  }
  rocksdb::IOStatus Spoil(const std::string& path, rocksdb::IOStatus status, rocksdb::Slice* result, char* scratch) {
    if (!status.ok()) return status;
    const std::lock_guard lock(mutex_);
    auto fault = Check(DiskCall::kRead, path);
    if (fault.ok()) return status;
    if (fault_.how == DiskFault::How::kShort) {
      *result = rocksdb::Slice(result->data(), result->size() / 2);
      return status;
    }
    if (fault_.how == DiskFault::How::kFlipped && !result->empty()) {
      if (result->data() != scratch) std::copy_n(result->data(), result->size(), scratch);
      scratch[result->size() / 2] = static_cast<char>(scratch[result->size() / 2] ^ 0x20);
      *result = rocksdb::Slice(scratch, result->size());
      return status;
    }
    return fault;
  }

  const std::string directory_;
  const std::string removed_;
  mutable std::mutex mutex_;
  DiskFault fault_;
  std::function<void()> on_fault_;
  uint64_t matched_ = 0;
  uint64_t failed_ = 0;
  uint64_t removals_ = 0;
  Names live_;
  Names durable_;
  std::vector<NameChange> changes_;  // of the directory, not yet synced, oldest first
};

/// What a RocksDB is opened with to use that disk. Its threads do not sleep for a second after an error.
class FaultyEnv final : public rocksdb::EnvWrapper {
 public:
  explicit FaultyEnv(std::shared_ptr<FaultyDisk> disk) : EnvWrapper(rocksdb::Env::Default()) {
    file_system_ = std::move(disk);
    system_clock_ = std::make_shared<Sleepless>();
  }

 private:
  class Sleepless final : public rocksdb::SystemClockWrapper {
   public:
    Sleepless() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
    const char* Name() const override { return "ingot.sleepless"; }
    void SleepForMicroseconds(int micros) override { SystemClockWrapper::SleepForMicroseconds(micros / 1000); }
  };
};

}  // namespace ingot
