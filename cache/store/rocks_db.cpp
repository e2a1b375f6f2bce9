// SPDX-License-Identifier: Apache-2.0
#include "cache/store/rocks_db.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/priority.h"
#include "cache/store/log_watch.h"
#include "cache/store/rocks_options.h"
#include "cache/store/troubles.h"

// Of TSan's runtime; no header declares them.
extern "C" [[gnu::weak]] void __tsan_ignore_thread_begin();
extern "C" [[gnu::weak]] void __tsan_ignore_thread_end();

namespace ingot::cache {
namespace {

constexpr int kThreadsNice = 10;
constexpr const char* kFamilyNames[kFamilies] = {"entries", "graphs", "artifacts",   "stats",
                                                 "facts",   "chunks", "pending",     "quarantine",
                                                 "order",   "groups", "group_names", "totals"};

Error ToError(const rocksdb::Status& status, std::string_view what) {
  const std::string message = std::string(what) + ": " + status.ToString();
  if (status.IsNotFound()) return Error(Code::kNotFound, message);
  // RocksDB names its own files, so one that is missing is damage.
  if (status.IsCorruption() || status.IsPathNotFound()) return Error(Code::kCorrupt, message);
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kSpaceLimit) {
    return Error(Code::kExhausted, message);
  }
  if (status.IsInvalidArgument() || status.IsNotSupported()) {
    return Error(Code::kIncompatible, message);
  }
  return Error(Code::kUnavailable, message);
}

Status ToStatus(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return {};
  return ToError(status, what);
}

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }
rocksdb::Slice ToSlice(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
Bytes ToBytes(const rocksdb::Slice& slice) { return {reinterpret_cast<const uint8_t*>(slice.data()), slice.size()}; }

/// The first key after all keys that begin with `prefix`; no prefix of ours is all 0xFF.
std::string EndOfPrefix(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xFF) prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

/// Leaves out of a replay what was written after changes that a loss of power has taken: of two logs that were not
/// synced the disk may keep the newer alone, and RocksDB does not see that the end of the older is missing
/// (https://github.com/facebook/rocksdb/wiki/WAL-Recovery-Modes). Changes are numbered, so that a hole shows. LogWatch
/// lets none come about, but on a disk that says of syncs what is not so.
class NoHoles final : public rocksdb::WalFilter {
 public:
  WalProcessingOption LogRecordFound(unsigned long long, const std::string& file, const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch*, bool*) override {
    const Bytes bytes = AsBytes(batch.Data());  // begins with the number of its first change
    if (bytes.size() < 8) return WalProcessingOption::kContinueProcessing;
    const auto number = LoadLittle<uint64_t>(bytes);
    if (next_ && number > *next_) {
      LogWarn("left out changes that follow a hole in the log", {{"file", file}, {"at", number}, {"after", *next_}});
      return WalProcessingOption::kIgnoreCurrentRecord;
    }
    next_ = number + batch.Count();
    return WalProcessingOption::kContinueProcessing;
  }
  const char* Name() const override { return "ingot.no_holes"; }

 private:
  std::optional<uint64_t> next_;
};

/// Hears of errors in RocksDB's own threads, and keeps RocksDB from mending them: one way to do so is enough,
/// RocksDb::Mend.
class ErrorListener final : public rocksdb::EventListener {
 public:
  explicit ErrorListener(std::shared_ptr<Troubles> troubles) : troubles_(std::move(troubles)) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* status) override {
    troubles_->Add(ToError(*status, "write"));
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* go_on) override { *go_on = false; }

 private:
  const std::shared_ptr<Troubles> troubles_;
};

/// Before 8.3, RocksDB leaves one empty log behind for every opening without a write
/// (https://github.com/facebook/rocksdb/issues/11313); its maintainers call removing them safe.
void RemoveEmptyLogs(const std::string& dir) {
  std::error_code code;
  std::vector<std::filesystem::path> empty;
  for (std::filesystem::directory_iterator it(dir, code), end; !code && it != end; it.increment(code)) {
    std::error_code ignored;
    if (it->path().extension() == ".log" && it->file_size(ignored) == 0) empty.push_back(it->path());
  }
  for (const std::filesystem::path& path : empty) std::filesystem::remove(path, code);
}

/// RocksDB's threads, one for each priority of the process, give way to whoever answers somebody. The number is one for
/// both: a lock that one holds while it waits for its turn is waited for by all.
void LetThreadsGiveWay() {
  for (const rocksdb::Env::Priority priority : {rocksdb::Env::LOW, rocksdb::Env::HIGH}) {
    rocksdb::Env::Default()->SetBackgroundThreads(1, priority);
    rocksdb::Env::Default()->Schedule([](void*) { GiveWay(kThreadsNice); }, nullptr, priority);
  }
}

/// Threads that write read each other's batches, in an order kept by atomics of RocksDB that TSan does not see.
struct OrderedElsewhere {
  OrderedElsewhere() {
    if (__tsan_ignore_thread_begin != nullptr) __tsan_ignore_thread_begin();
  }
  ~OrderedElsewhere() {
    if (__tsan_ignore_thread_end != nullptr) __tsan_ignore_thread_end();
  }
};

}  // namespace

/// One opening of the database.
struct RocksDb::Opened {
  const LogWatch log_watch;
  NoHoles no_holes;  // used while it opens
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;  // owned; in the order of Family, then default

  Opened(rocksdb::Env& env, const std::shared_ptr<Troubles>& troubles)
      : log_watch(env, [troubles](const rocksdb::IOStatus& error) { troubles->Add(ToError(error, "sync a log")); }) {}

  rocksdb::ColumnFamilyHandle* Of(Family family) { return handles[static_cast<size_t>(family)]; }

  static Result<std::unique_ptr<Opened>> Open(const std::string& dir, const RocksDbOptions& options, rocksdb::Env* env,
                                              std::shared_ptr<Troubles> troubles, bool only_read) {
    // Each shard has a lock, which a thread that gives way may hold while it waits for its turn.
    const auto cache = rocksdb::NewLRUCache(options.block_cache_bytes, /*num_shard_bits=*/6);
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (size_t i = 0; i < kFamilies; ++i) {
      families.emplace_back(kFamilyNames[i], MakeFamilyOptions(options, static_cast<Family>(i), cache));
    }
    families.emplace_back(rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions());
    auto opened = std::make_unique<Opened>(*env, troubles);
    rocksdb::DBOptions db_options = MakeDbOptions(options);
    db_options.env = opened->log_watch.disk();
    db_options.wal_filter = &opened->no_holes;
    db_options.listeners.push_back(std::make_shared<ErrorListener>(std::move(troubles)));
    const rocksdb::Status status = opened->OpenDb(db_options, dir, families, only_read);
    if (!status.ok()) return ToError(status, "open " + dir);
    TRY(ToStatus(opened->log_watch.error(), "open " + dir));
    return opened;
  }

  rocksdb::Status OpenDb(const rocksdb::DBOptions& db_options, const std::string& dir,
                         std::vector<rocksdb::ColumnFamilyDescriptor> families, bool only_read) {
    // Families that are missing are made one by one, each time with a file of the options of all of them: most of
    // the time that a new database takes. So a new one begins with the default family alone.
    const bool is_new = !only_read && db_options.env->FileExists(dir + "/CURRENT").IsNotFound();
    rocksdb::DB* made = nullptr;
    rocksdb::Status status = only_read ? rocksdb::DB::OpenForReadOnly(db_options, dir, families, &handles, &made)
                             : is_new  ? rocksdb::DB::Open(db_options, dir, {families.back()}, &handles, &made)
                                       : rocksdb::DB::Open(db_options, dir, families, &handles, &made);
    db.reset(made);
    if (!status.ok() || !is_new) return status;
    families.pop_back();
    std::vector<rocksdb::ColumnFamilyHandle*> others;
    status = db->CreateColumnFamilies(families, &others);
    handles.insert(handles.begin(), others.begin(), others.end());
    return status;
  }
  ~Opened() {
    if (db == nullptr) return;
    // Nobody waits for a store to close, but somebody does for it to open: what is in table files
    // need not be replayed. Should it fail, the log still has it.
    db->Flush(rocksdb::FlushOptions(), handles).PermitUncheckedError();
    for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
    db->Close().PermitUncheckedError();
  }
};

struct RocksDb::State {
  std::string dir;
  rocksdb::Env* env = rocksdb::Env::Default();
  const std::shared_ptr<Troubles> troubles = std::make_shared<Troubles>();
  std::atomic<uint64_t> opening{1};

  // Held alone to exchange what is opened, shared by all who use it.
  mutable SharedMutex exchange;
  std::unique_ptr<Opened> opened GUARDED_BY(exchange);  // nullptr: not even reading is possible

  Mutex mend;  // one mends, others wait for it
  int64_t next_try_ns GUARDED_BY(mend) = 0;
  uint64_t wait_ms GUARDED_BY(mend) = 0;
  uint64_t corruptions GUARDED_BY(mend) = 0;

  Error Unusable() const {
    const std::optional<Error> last = troubles->last();
    return last ? *last : Error(Code::kUnavailable, "the database in " + dir + " is not open");
  }
  /// Whether a file can be written: the database is not given up while it at least reads.
  Status Probe() {
    const std::string file = dir + "/PROBE.dbtmp";  // RocksDB removes what is left of such a name
    const rocksdb::Status written = rocksdb::WriteStringToFile(env, std::string(4096, 'x'), file, /*should_sync=*/true);
    env->GetFileSystem()->DeleteFile(file, rocksdb::IOOptions(), nullptr).PermitUncheckedError();
    return ToStatus(written, "write " + file);
  }
  /// `number`: for Troubles::End, all that the opening before had to say included.
  Status OpenAnew(const RocksDbOptions& options, uint64_t& number) {
    const WriteLock lock(exchange);
    opened.reset();
    ++opening;
    number = troubles->number();
    Result<std::unique_ptr<Opened>> again = Opened::Open(dir, options, env, troubles, /*only_read=*/false);
    Status status;
    if (!again) {
      status = again.error();
      again = Opened::Open(dir, options, env, troubles, /*only_read=*/true);
    }
    if (again) opened = std::move(again).value();
    return status;
  }
};

RocksDb::RocksDb(std::unique_ptr<State> state, const RocksDbOptions& options)
    : options_(options), state_(std::move(state)) {}
RocksDb::~RocksDb() = default;

Result<std::unique_ptr<RocksDb>> RocksDb::Open(const std::string& dir, const RocksDbOptions& options) {
  RemoveEmptyLogs(dir);
  static std::once_flag threads_give_way;
  std::call_once(threads_give_way, LetThreadsGiveWay);
  auto state = std::make_unique<State>();
  state->dir = dir;
  if (options.disk != nullptr) state->env = options.disk.get();
  Result<std::unique_ptr<Opened>> opened = Opened::Open(dir, options, state->env, state->troubles, /*only_read=*/false);
  if (!opened && (opened.error().code() == Code::kExhausted || opened.error().code() == Code::kUnavailable)) {
    const Error error = opened.error();
    opened = Opened::Open(dir, options, state->env, state->troubles, /*only_read=*/true);
    if (!opened) return error;
    state->troubles->Add(error);
    LogWarn("opened a store for reading only", {{"dir", dir}, {"reason", error}});
  }
  TRY_ASSIGN(std::unique_ptr<Opened> first, std::move(opened));
  {
    const WriteLock lock(state->exchange);
    state->opened = std::move(first);
  }
  return std::unique_ptr<RocksDb>(new RocksDb(std::move(state), options));
}

uint64_t RocksDb::opening() const { return state_->opening; }

std::string RocksDb::Trouble() const {
  const std::optional<Error> last = state_->troubles->last();
  return last ? last->message() : std::string();
}

Status RocksDb::Mend() {
  State& state = *state_;
  if (!state.troubles->is_ill()) return {};
  const MutexLock lock(state.mend);
  if (!state.troubles->is_ill()) return {};
  const int64_t now = options_.clock->steady_ns();
  if (now < state.next_try_ns) {
    Error error = state.Unusable();
    return Error(error.code(), fmt::format("{} takes no writes, which is tried again in {} ms: {}", state.dir,
                                           (state.next_try_ns - now) / 1'000'000 + 1, error.message()));
  }
  uint64_t number = state.troubles->number();
  Status mended;
  // One bad read may be that of a moment; what is found again is damage, which opening anew does not mend.
  if (state.troubles->last()->code() == Code::kCorrupt && ++state.corruptions > 1) mended = state.Unusable();
  if (mended) mended = state.Probe();
  // Never DB::Resume: what a failed write left in a log is known only once that has been read, and where the flush with
  // which it begins fails as well it may wait for it for ever.
  if (mended) mended = state.OpenAnew(options_, number);
  if (!mended) {
    state.wait_ms = std::clamp(2 * state.wait_ms, options_.mend_wait_ms_min, options_.mend_wait_ms_max);
    state.next_try_ns = now + static_cast<int64_t>(state.wait_ms) * 1'000'000;
    return Error(mended.error().code(), fmt::format("{} takes no writes: {}", state.dir, mended.error().message()));
  }
  state.wait_ms = 0;
  state.next_try_ns = now;
  state.troubles->End(number);
  LogInfo("writes go on after an error of the disk", {{"dir", state.dir}, {"opening", state.opening.load()}});
  return {};
}

namespace {

class SnapshotView final : public RocksDb::View {
 public:
  SnapshotView(rocksdb::DB& db, const std::vector<rocksdb::ColumnFamilyHandle*>& handles,
               const rocksdb::Snapshot* snapshot)
      : db_(db), handles_(handles), snapshot_(snapshot) {}

  Status Read(Family family, std::string_view key, const std::function<Status(Bytes)>& use) override {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot_;
    rocksdb::PinnableSlice value;
    rocksdb::ColumnFamilyHandle* const handle = handles_[static_cast<size_t>(family)];
    rocksdb::Status status = db_.Get(read, handle, ToSlice(key), &value);
    // One bad read may be that of a moment, and rows that are damaged are given up.
    if (status.IsCorruption()) status = db_.Get(read, handle, ToSlice(key), &value);
    if (!status.ok()) return ToError(status, "read");
    return use(ToBytes(value));
  }
  Status Scan(Family family, std::string_view prefix, const std::function<bool(Bytes, Bytes)>& use) override {
    return ScanFrom(family, prefix, use, {});
  }
  Status ScanFrom(Family family, std::string_view prefix, const std::function<bool(Bytes, Bytes)>& use,
                  std::string_view from) {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot_;
    const std::string end = EndOfPrefix(std::string(prefix));
    const rocksdb::Slice bound(end);
    if (!end.empty()) read.iterate_upper_bound = &bound;
    read.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> it(db_.NewIterator(read, handles_[static_cast<size_t>(family)]));
    for (it->Seek(ToSlice(std::max(prefix, from))); it->Valid(); it->Next()) {
      if (!use(ToBytes(it->key()), ToBytes(it->value()))) break;
    }
    return ToStatus(it->status(), "scan");
  }

 private:
  rocksdb::DB& db_;
  const std::vector<rocksdb::ColumnFamilyHandle*>& handles_;
  const rocksdb::Snapshot* const snapshot_;
};

}  // namespace

Status RocksDb::Read(Family family, std::string_view key, const std::function<Status(Bytes)>& use) {
  const ReadLock lock(state_->exchange);
  if (state_->opened == nullptr) return state_->Unusable();
  return SnapshotView(*state_->opened->db, state_->opened->handles, nullptr).Read(family, key, use);
}

Status RocksDb::Scan(Family family, std::string_view prefix, const std::function<bool(Bytes, Bytes)>& use,
                     std::string_view from) {
  const ReadLock lock(state_->exchange);
  if (state_->opened == nullptr) return state_->Unusable();
  return SnapshotView(*state_->opened->db, state_->opened->handles, nullptr).ScanFrom(family, prefix, use, from);
}

Status RocksDb::Look(const std::function<Status(View&)>& use) {
  const ReadLock lock(state_->exchange);
  if (state_->opened == nullptr) return state_->Unusable();
  rocksdb::ManagedSnapshot snapshot(state_->opened->db.get());
  SnapshotView view(*state_->opened->db, state_->opened->handles, snapshot.snapshot());
  return use(view);
}

Status RocksDb::Apply(std::span<const RowChange> changes, bool sync, uint64_t opening) {
  const ReadLock lock(state_->exchange);
  if (state_->troubles->is_ill() || state_->opened == nullptr) return state_->Unusable();
  if (opening != state_->opening) {
    return Error(Code::kUnavailable, "the database was opened anew under a change");
  }
  rocksdb::WriteBatch batch;
  for (const RowChange& change : changes) {
    rocksdb::ColumnFamilyHandle* const handle = state_->opened->Of(change.family);
    rocksdb::Status added;
    switch (change.kind) {
      case RowChange::Kind::kPut: added = batch.Put(handle, ToSlice(change.key), ToSlice(change.value)); break;
      case RowChange::Kind::kErase: added = batch.Delete(handle, ToSlice(change.key)); break;
      case RowChange::Kind::kErasePrefix:
        added = batch.DeleteRange(handle, ToSlice(change.key), EndOfPrefix(change.key));
        break;
      case RowChange::Kind::kAdd: added = batch.Merge(handle, ToSlice(change.key), ToSlice(change.value)); break;
    }
    TRY(ToStatus(added, "write"));
  }
  rocksdb::WriteOptions write;
  write.sync = sync;
  rocksdb::Status status;
  {
    const OrderedElsewhere unseen;
    status = state_->opened->db->Write(write, &batch);
  }
  if (status.ok() && sync) status = state_->opened->log_watch.error();
  if (status.ok()) return {};
  // Whether the changes are in the log is known only once the log has been read.
  const Error error = ToError(status, "write " + state_->dir);
  state_->troubles->Add(error);
  return error;
}

Status RocksDb::Compact(std::stop_token stop) {
  std::atomic<bool> canceled{false};
  const std::stop_callback on_stop(stop, [&canceled] { canceled = true; });
  rocksdb::CompactRangeOptions options;
  options.canceled = &canceled;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  options.blob_garbage_collection_age_cutoff = 1.0;
  TRY(Mend());
  const ReadLock lock(state_->exchange);
  if (state_->opened == nullptr) return state_->Unusable();
  rocksdb::DB& db = *state_->opened->db;
  // What is erased only counts once it is in table files.
  TRY(ToStatus(db.Flush(rocksdb::FlushOptions(), state_->opened->handles), "flush"));
  for (size_t i = 0; i < kFamilies; ++i) {
    rocksdb::ColumnFamilyHandle* const handle = state_->opened->handles[i];
    const auto of = [&](const std::string& property) {
      uint64_t bytes = 0;
      db.GetIntProperty(handle, property, &bytes);
      return bytes;
    };
    const auto run = [&](rocksdb::BlobGarbageCollectionPolicy policy) -> Status {
      options.blob_garbage_collection_policy = policy;
      const rocksdb::Status status = db.CompactRange(options, handle, nullptr, nullptr);
      if (stop.stop_requested()) return Error(Code::kCancelled, "compacting was told to stop");
      return ToStatus(status, std::string("compact ") + kFamilyNames[i]);
    };
    // Large tables are compacted where they hold many erased rows, by RocksDB itself (MakeFamilyOptions).
    if (of("rocksdb.total-sst-files-size") <= options_.compact_rows_bytes_max) {
      TRY(run(rocksdb::BlobGarbageCollectionPolicy::kDisable));
    }
    const uint64_t garbage = of(rocksdb::DB::Properties::kLiveBlobFileGarbageSize);
    if (garbage == 0) continue;
    if (garbage * 100 < of(rocksdb::DB::Properties::kTotalBlobFileSize) * options_.blob_garbage_percent_max) continue;
    TRY(run(rocksdb::BlobGarbageCollectionPolicy::kForce));
  }
  return {};
}

uint64_t RocksDb::DiskBytes() {
  uint64_t total = 0;
  const ReadLock lock(state_->exchange);
  if (state_->opened == nullptr) return total;
  for (size_t i = 0; i < kFamilies; ++i) {
    for (const char* property : {"rocksdb.total-sst-files-size", "rocksdb.total-blob-file-size"}) {
      uint64_t bytes = 0;
      if (state_->opened->db->GetIntProperty(state_->opened->handles[i], property, &bytes)) total += bytes;
    }
  }
  return total;
}

}  // namespace ingot::cache
