// SPDX-License-Identifier: Apache-2.0
#include "cache/store/open_store.h"

#include <atomic>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "cache/store/memory_store.h"
#include "cache/store/rocks_store.h"
#include "cache/store/store_dir.h"

namespace ingot::cache {
namespace {

RocksStoreOptions MakeRocksOptions(const StoreOptions& options) {
  RocksStoreOptions rocks;
  rocks.db.block_cache_bytes = options.block_cache_bytes;
  rocks.db.write_buffer_bytes = options.write_buffer_bytes;
  rocks.db.files_open_max = options.files_open_max;
  rocks.db.disk = options.disk;
  rocks.db.clock = options.clock;
  rocks.chunk_bytes = options.chunk_bytes;
  rocks.value_bytes_max = options.value_bytes_max;
  rocks.disk_free_bytes_min = options.disk_free_bytes_min;
  rocks.touches_max = options.touches_max;
  rocks.use_half_life_s = options.use_half_life_s;
  rocks.damages_max = options.damages_max;
  rocks.clock = options.clock;
  rocks.filesystem = options.filesystem;
  rocks.metrics = options.metrics;
  return rocks;
}

Status CheckNetwork(const std::string& dir, const StoreOptions& options) {
  TRY_ASSIGN(const bool network, options.filesystem->IsNetwork(dir));
  if (!network) return {};
  LogWarn("the store is on a network file system", {{"dir", dir}, {"allowed", options.allow_network}});
  if (options.allow_network) return {};
  return Error(Code::kUnavailable, dir +
                                       " is on a network file system, where a database is not safe: use a local "
                                       "directory, or allow it in the configuration");
}

Result<std::unique_ptr<Store>> OpenDatabase(StoreDir& dir, const StoreOptions& options) {
  TRY(dir.CheckVersion());
  TRY(dir.CheckDamageNote());
  if (!options.filesystem->Exists(dir.database())) {
    // In this order, since a database without a version is not trusted after a crash.
    TRY(dir.WriteVersion());
    TRY(options.filesystem->MakeDirs(dir.database()));
  }
  return OpenRocksStore(dir.database(), MakeRocksOptions(options));
}

/// True where the database, not the disk or the user, is at fault.
bool IsDatabaseAtFault(Code code) { return code == Code::kCorrupt || code == Code::kIncompatible; }

/// Moves the database aside and opens an empty one.
Result<std::unique_ptr<Store>> StartEmpty(StoreDir& dir, const Error& reason, const StoreOptions& options) {
  TRY_ASSIGN(const std::string place, dir.MoveAside(reason, *options.clock, options.asides_max));
  options.metrics->Add(Counter::store_reset);
  LogWarn("moved an unreadable store aside", {{"to", place}, {"reason", reason}});
  return OpenDatabase(dir, options);
}

/// Keeps the directory's lock for as long as the store in it lives. A database that takes no more writes because it is
/// damaged is moved aside, and an empty one goes on in its place: the next opening would do no better.
class DirStore final : public Store {
 public:
  DirStore(StoreDir dir, std::unique_ptr<Store> store, const StoreOptions& options)
      : options_(options), dir_(std::move(dir)), store_(std::move(store)) {}

  Result<uint64_t> Read(Table table, const Digest& key, Sink& sink) override {
    return On([&](Store& store) { return store.Read(table, key, sink); });
  }
  Result<uint64_t> Put(Table table, const Digest& key, Bytes value, const PutOptions& options) override {
    return Change([&](Store& store) { return store.Put(table, key, value, options); });
  }
  Result<bool> Delete(Table table, const Digest& key, std::optional<uint64_t> expected) override {
    return Change([&](Store& store) { return store.Delete(table, key, expected); });
  }
  Result<Stat> StatOf(Table table, const Digest& key) override {
    return On([&](Store& store) { return store.StatOf(table, key); });
  }
  void Touch(Table table, const Digest& key) override {
    Ignore(On([&](Store& store) -> Status {
             store.Touch(table, key);
             return {};
           }),
           "uses may be lost");
  }
  Status Pin(Table table, const Digest& key, bool pinned) override {
    return Change([&](Store& store) { return store.Pin(table, key, pinned); });
  }
  Result<Page<StoreRow>> List(Table table, const std::string& after, size_t limit) override {
    return On([&](Store& store) { return store.List(table, after, limit); });
  }
  Result<Page<GroupRow>> ListGroup(Table table, const std::string& group, const std::string& after,
                                   size_t limit) override {
    return On([&](Store& store) { return store.ListGroup(table, group, after, limit); });
  }
  Result<Page<std::string>> ListGroups(Table table, const std::string& after, size_t limit) override {
    return On([&](Store& store) { return store.ListGroups(table, after, limit); });
  }
  Result<std::string> GroupOf(Table table, const Digest& key) override {
    return On([&](Store& store) { return store.GroupOf(table, key); });
  }
  Result<Page<StoreRow>> Cheapest(Table table, const std::string& after, size_t limit) override {
    return On([&](Store& store) { return store.Cheapest(table, after, limit); });
  }
  std::array<Totals, kTables> TotalsOf() override {
    const ReadLock lock(exchange_);
    return store_ == nullptr ? std::array<Totals, kTables>() : store_->TotalsOf();
  }
  int64_t half_life_s() const override { return options_.use_half_life_s; }
  Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) override {
    return On([&](Store& store) { return store.ForEachDamaged(fn); });
  }
  Status Compact(std::stop_token stop) override {
    return Change([&](Store& store) { return store.Compact(stop); });
  }
  std::string Describe() const override {
    const ReadLock lock(exchange_);
    return store_ == nullptr ? "closed: " + lost_->ToText() : store_->Describe();
  }
  std::string Trouble() const override {
    const ReadLock lock(exchange_);
    return store_ == nullptr ? lost_->ToText() : store_->Trouble();
  }

 private:
  template <typename Call>
  std::invoke_result_t<Call, Store&> On(const Call& call) {
    const ReadLock lock(exchange_);
    if (store_ == nullptr) return *lost_;
    return call(*store_);
  }
  template <typename Call>
  std::invoke_result_t<Call, Store&> Change(const Call& call) {
    const uint64_t openings = openings_;
    auto result = On(call);
    if (result || result.error().code() != Code::kCorrupt) return result;
    TRY(StartAnew(openings, result.error()));
    return On(call);
  }
  Status StartAnew(uint64_t openings, const Error& reason);

  const StoreOptions options_;
  // Declared before the database, so destroyed after it: the lock outlives it.
  StoreDir dir_;
  std::atomic<uint64_t> openings_{0};
  // Held alone to exchange the database, shared by all who use it.
  mutable SharedMutex exchange_;
  // nullptr: neither the old nor a new one can be used, as `lost_` says.
  std::unique_ptr<Store> store_ GUARDED_BY(exchange_);
  std::optional<Error> lost_ GUARDED_BY(exchange_);
};

Status DirStore::StartAnew(uint64_t openings, const Error& reason) {
  const WriteLock lock(exchange_);
  if (openings != openings_) return {};  // somebody else has
  // Should the process end before the database is moved, the next one moves it.
  Ignore(dir_.WriteDamageNote(reason.message()), "it is moved now");
  store_.reset();
  Result<std::unique_ptr<Store>> store = StartEmpty(dir_, reason, options_);
  ++openings_;
  if (!store) {
    lost_ = Error(Code::kUnavailable,
                  "the database is damaged and no other can take its place: " + store.error().message());
    return *lost_;
  }
  store_ = std::move(store).value();
  return {};
}

}  // namespace

bool IsFresh(const std::string& dir, Filesystem& filesystem) { return !filesystem.Exists(StoreDir::DatabaseIn(dir)); }

Result<std::unique_ptr<Store>> OpenStore(const std::string& dir, const StoreOptions& options) {
  if (dir.empty()) {
    MemoryStoreOptions memory;
    memory.bytes_max = options.memory_bytes_max;
    memory.use_half_life_s = options.use_half_life_s;
    memory.clock = options.clock;
    return std::unique_ptr<Store>(std::make_unique<MemoryStore>(memory));
  }
  TimeScope timed(Timer::store_open, *options.metrics);
  TRY_ASSIGN(StoreDir store_dir, StoreDir::Open(dir, *options.filesystem, options.lock));
  TRY(CheckNetwork(dir, options));
  Result<std::unique_ptr<Store>> store = OpenDatabase(store_dir, options);
  if (!store && IsDatabaseAtFault(store.error().code())) {
    const Error reason = store.error();
    store = StartEmpty(store_dir, reason, options);
  }
  if (!store) return std::move(store).error().Wrap("store " + dir);
  return std::unique_ptr<Store>(std::make_unique<DirStore>(std::move(store_dir), std::move(store).value(), options));
}

}  // namespace ingot::cache
