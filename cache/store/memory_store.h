// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "cache/store/store.h"

namespace ingot::cache {

struct MemoryStoreOptions {
  /// Bytes of all values; a write beyond is refused with kExhausted.
  uint64_t bytes_max = 1ull << 30;
  /// As RocksStoreOptions.
  int64_t use_half_life_s = 7 * 86'400;
  const Clock* clock = &SystemClock();
};

/// A Store that lives as long as the process. Thread-safe.
class MemoryStore : public Store {
 public:
  explicit MemoryStore(const MemoryStoreOptions& options = {}) : options_(options) {}

  Result<uint64_t> Read(Table table, const Digest& key, Sink& sink) override;
  Result<uint64_t> Put(Table table, const Digest& key, Bytes value, const PutOptions& options) override;
  Result<bool> Delete(Table table, const Digest& key, std::optional<uint64_t> expected) override;
  Result<Stat> StatOf(Table table, const Digest& key) override;
  void Touch(Table table, const Digest& key) override;
  Status Pin(Table table, const Digest& key, bool pinned) override;
  Result<Page<StoreRow>> List(Table table, const std::string& after, size_t limit) override;
  Result<Page<GroupRow>> ListGroup(Table table, const std::string& group, const std::string& after,
                                   size_t limit) override;
  Result<Page<std::string>> ListGroups(Table table, const std::string& after, size_t limit) override;
  Result<std::string> GroupOf(Table table, const Digest& key) override;
  Result<Page<StoreRow>> Cheapest(Table table, const std::string& after, size_t limit) override;
  std::array<Totals, kTables> TotalsOf() override;
  int64_t half_life_s() const override { return options_.use_half_life_s; }
  Status ForEachDamaged(const std::function<bool(const Damage&)>&) override { return {}; }
  Status Compact(std::stop_token) override { return {}; }
  std::string Describe() const override;

 private:
  struct Row {
    std::shared_ptr<const Buffer> value;  // shared with readers that copy it without the lock
    Stat stat;
    std::string group;
    Buffer summary;
  };
  /// In the order of the hex digits, as the store on disk has it.
  struct ByHex {
    bool operator()(const Digest& a, const Digest& b) const {
      return std::pair(a.high, a.low) < std::pair(b.high, b.low);
    }
  };
  struct NewestFirst {
    bool operator()(const std::pair<int64_t, Digest>& a, const std::pair<int64_t, Digest>& b) const {
      return a.first != b.first ? a.first > b.first : ByHex()(a.second, b.second);
    }
  };
  struct Group {
    std::string name;
    /// Time of creation, key.
    std::set<std::pair<int64_t, Digest>, NewestFirst> rows;
  };
  struct Rows {
    std::map<Digest, Row, ByHex> rows;
    std::set<std::pair<double, Digest>> order;
    /// By the digests of the groups' names, as the store on disk has them.
    std::map<Digest, Group, ByHex> groups;
    uint64_t bytes = 0;
  };

  Rows& Of(Table table) REQUIRES(mutex_) { return tables_[static_cast<size_t>(table)]; }
  /// Takes the row out of the orders, or puts it in.
  void Unlink(Rows& rows, const Digest& key, const Row& row) REQUIRES(mutex_);
  void Link(Rows& rows, const Digest& key, const Row& row) REQUIRES(mutex_);

  const MemoryStoreOptions options_;
  mutable Mutex mutex_;
  std::array<Rows, kTables> tables_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t next_version_ GUARDED_BY(mutex_) = 1;
};

}  // namespace ingot::cache
