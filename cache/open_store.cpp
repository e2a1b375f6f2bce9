// SPDX-License-Identifier: Apache-2.0
#include "cache/open_store.h"

#include <utility>

#include "base/log.h"
#include "cache/memory_store.h"
#include "cache/rocks_store.h"
#include "cache/store_dir.h"

namespace ingot::cache {
namespace {

/// Keeps the directory's lock for as long as the store in it lives, and leaves a note for the
/// next opening when the database stops accepting writes because it is damaged.
class DirStore final : public Store {
 public:
  DirStore(StoreDir dir, std::unique_ptr<Store> store)
      : dir_(std::move(dir)), store_(std::move(store)) {}

  Result<uint64_t> Read(Table table, const Digest& key, const Room& room) override {
    return store_->Read(table, key, room);
  }
  Result<uint64_t> Put(Table table, const Digest& key, Bytes value, const PutOptions& options) override {
    return Note(store_->Put(table, key, value, options));
  }
  Result<bool> Delete(Table table, const Digest& key, std::optional<uint64_t> expected) override {
    return Note(store_->Delete(table, key, expected));
  }
  Result<Stat> StatOf(Table table, const Digest& key) override { return store_->StatOf(table, key); }
  void Touch(Table table, const Digest& key) override { store_->Touch(table, key); }
  Status Pin(Table table, const Digest& key, bool pinned) override { return Note(store_->Pin(table, key, pinned)); }
  Result<Page<StoreRow>> List(Table table, const std::string& after, size_t limit) override {
    return store_->List(table, after, limit);
  }
  Result<Page<GroupRow>> ListGroup(Table table, const std::string& group, const std::string& after,
                                   size_t limit) override {
    return store_->ListGroup(table, group, after, limit);
  }
  Result<Page<std::string>> ListGroups(Table table, const std::string& after, size_t limit) override {
    return store_->ListGroups(table, after, limit);
  }
  Result<std::string> GroupOf(Table table, const Digest& key) override { return store_->GroupOf(table, key); }
  Result<Page<StoreRow>> Cheapest(Table table, const std::string& after, size_t limit) override {
    return store_->Cheapest(table, after, limit);
  }
  std::array<Totals, kTables> TotalsOf() override { return store_->TotalsOf(); }
  int64_t half_life_s() const override { return store_->half_life_s(); }
  Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) override { return store_->ForEachDamaged(fn); }
  Status Compact(std::stop_token stop) override { return Note(store_->Compact(std::move(stop))); }
  std::string Describe() const override { return store_->Describe(); }

 private:
  template <typename T>
  Result<T> Note(Result<T> result) {
    if (!result && result.error().code() == Code::kCorrupt) {
      Ignore(dir_.WriteDamageNote(result.error().message()), "the next write notes it again");
    }
    return result;
  }

  // Declared first, so destroyed last: the lock outlives the database.
  StoreDir dir_;
  const std::unique_ptr<Store> store_;
};

RocksStoreOptions MakeRocksOptions(const StoreOptions& options) {
  RocksStoreOptions rocks;
  rocks.db.block_cache_bytes = options.block_cache_bytes;
  rocks.db.write_buffer_bytes = options.write_buffer_bytes;
  rocks.db.files_open_max = options.files_open_max;
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
  LogWarn("the store is on a network file system",
          {{"dir", dir}, {"allowed", options.allow_network}});
  if (options.allow_network) return {};
  return Error(Code::kUnavailable,
               dir + " is on a network file system, where a database is not safe: use a local "
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
bool IsDatabaseAtFault(Code code) {
  return code == Code::kCorrupt || code == Code::kIncompatible;
}

}  // namespace

bool IsFresh(const std::string& dir, Filesystem& filesystem) {
  return !filesystem.Exists(StoreDir::DatabaseIn(dir));
}

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
    TRY_ASSIGN(const std::string place,
               store_dir.MoveAside(store.error(), *options.clock, options.asides_max));
    options.metrics->Add(Counter::store_reset);
    LogWarn("moved an unreadable store aside", {{"to", place}, {"reason", store.error()}});
    store = OpenDatabase(store_dir, options);
  }
  if (!store) return std::move(store).error().Wrap("store " + dir);
  return std::unique_ptr<Store>(std::make_unique<DirStore>(std::move(store_dir), std::move(store).value()));
}

}  // namespace ingot::cache
