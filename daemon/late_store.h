// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "cache/store/store.h"

namespace ingot::daemon {

/// A store that is opened behind the socket: opening waits for the disk many times, and a daemon
/// must answer before that. A fresh one is left alone until somebody wants to write: whoever
/// starts a daemon is about to make a first call, which needs the processors more. Calls wait for
/// the store behind it, except where the answer is clear: a fresh store has no values, and uses of
/// a store that is not open are not counted. Thread-safe.
class LateStore final : public cache::Store {
 public:
  using Opener = std::function<std::unique_ptr<cache::Store>()>;

  /// `fresh`: nothing was ever stored there.
  explicit LateStore(bool fresh) : fresh_(fresh) {}
  ~LateStore() override;

  /// Calls `open`, which never returns nullptr, on a thread of its own. Called once.
  void Open(Opener open);
  /// Opens a fresh store too: a write is coming.
  void Hurry();
  /// Waits until `open` has returned or never will be called: what it refers to may go then. No
  /// call may wait for the store any more.
  void Join();

  Result<uint64_t> Read(cache::Table table, const Digest& key, cache::Sink& sink) override;
  Result<uint64_t> Put(cache::Table table, const Digest& key, Bytes value, const cache::PutOptions& options) override;
  Result<bool> Delete(cache::Table table, const Digest& key, std::optional<uint64_t> expected) override;
  Result<cache::Stat> StatOf(cache::Table table, const Digest& key) override;
  void Touch(cache::Table table, const Digest& key) override;
  Status Pin(cache::Table table, const Digest& key, bool pinned) override;
  Result<cache::Page<cache::StoreRow>> List(cache::Table table, const std::string& after, size_t limit) override;
  Result<cache::Page<cache::GroupRow>> ListGroup(cache::Table table, const std::string& group, const std::string& after,
                                                 size_t limit) override;
  Result<cache::Page<std::string>> ListGroups(cache::Table table, const std::string& after, size_t limit) override;
  Result<std::string> GroupOf(cache::Table table, const Digest& key) override;
  Result<cache::Page<cache::StoreRow>> Cheapest(cache::Table table, const std::string& after, size_t limit) override;
  /// Nothing while it is not open.
  std::array<cache::Totals, cache::kTables> TotalsOf() override;
  int64_t half_life_s() const override;
  Status ForEachDamaged(const std::function<bool(const cache::Damage&)>& fn) override;
  Status Compact(std::stop_token stop) override;
  std::string Describe() const override;
  std::string Trouble() const override;

 private:
  /// nullptr while it is not open.
  cache::Store* Peek() const;
  /// Waits until it is open.
  cache::Store& Wait();
  /// As Wait; nullptr for a fresh store that is not open: it has no values.
  cache::Store* ForReading();

  const bool fresh_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool wanted_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::unique_ptr<cache::Store> store_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ingot::daemon
