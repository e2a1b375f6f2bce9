// SPDX-License-Identifier: Apache-2.0
#include "cache/open_store.h"

#include <utility>

#include "base/log.h"
#include "cache/memory_store.h"
#include "cache/rocks_store.h"
#include "cache/store_dir.h"
#include "cache/tiered_store.h"
#include "cache/verify_store.h"

namespace ingot::cache {
namespace {

/// Keeps the directory's lock for as long as the store in it lives, and leaves a note for the
/// next opening when the database stops accepting writes because it is damaged.
class DirStore final : public Store {
 public:
  DirStore(StoreDir dir, std::unique_ptr<Store> store)
      : dir_(std::move(dir)), store_(std::move(store)) {}

  Result<Buffer> Get(Table table, const Digest& key) override { return store_->Get(table, key); }
  Status Put(Table table, const Digest& key, Bytes value, double cost_s) override {
    return Note(store_->Put(table, key, value, cost_s));
  }
  Result<bool> PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) override {
    Result<bool> put = store_->PutIfAbsent(table, key, value, cost_s);
    if (!put) return Note(std::move(put).error()).error();
    return put;
  }
  Status Delete(Table table, const Digest& key) override {
    return Note(store_->Delete(table, key));
  }
  Result<Stat> StatOf(Table table, const Digest& key) override {
    return store_->StatOf(table, key);
  }
  void Touch(Table table, const Digest& key) override { store_->Touch(table, key); }
  Status Pin(Table table, const Digest& key, bool pinned) override {
    return store_->Pin(table, key, pinned);
  }
  Status ForEach(Table table, const std::function<bool(const Digest&, const Stat&)>& fn) override {
    return store_->ForEach(table, fn);
  }
  Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) override {
    return store_->ForEachDamaged(fn);
  }
  Status Compact() override { return Note(store_->Compact()); }
  std::string Describe() const override { return store_->Describe(); }

 private:
  Status Note(Status status) {
    if (!status && status.error().code() == Code::kCorrupt) {
      Ignore(dir_.WriteDamageNote(status.error().message()), "the next write notes it again");
    }
    return status;
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
    memory.clock = options.clock;
    return std::unique_ptr<Store>(std::make_unique<VerifyStore>(
        std::make_unique<MemoryStore>(memory), *options.metrics));
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
  auto whole = std::make_unique<VerifyStore>(
      std::make_unique<DirStore>(std::move(store_dir), std::move(store).value()),
      *options.metrics);
  if (options.memory_bytes_max == 0) return std::unique_ptr<Store>(std::move(whole));
  TierOptions tier;
  tier.bytes_max = options.memory_bytes_max;
  tier.value_bytes_max = options.memory_value_bytes_max;
  tier.metrics = options.metrics;
  return std::unique_ptr<Store>(std::make_unique<TieredStore>(std::move(whole), tier));
}

}  // namespace ingot::cache
