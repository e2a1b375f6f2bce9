// SPDX-License-Identifier: Apache-2.0
#include "daemon/late_store.h"

#include <fmt/format.h>

#include <utility>

namespace ingot::daemon {

using cache::Stat;
using cache::Store;
using cache::Table;

namespace {

Error Absent(Table table, const Digest& key) {
  return Error(Code::kNotFound, fmt::format("no value {} in {}", key.ToHex(), NameOf(table)));
}

}  // namespace

LateStore::~LateStore() { Join(); }

void LateStore::Join() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void LateStore::Open(Opener open) {
  if (!fresh_) Hurry();
  thread_ = std::thread([this, open = std::move(open)] {
    {
      MutexLock lock(mutex_);
      while (!wanted_ && !stopping_) changed_.Wait(mutex_);
      if (!wanted_) return;
    }
    std::unique_ptr<Store> store = open();
    MutexLock lock(mutex_);
    store_ = std::move(store);
    changed_.NotifyAll();
  });
}

void LateStore::Hurry() {
  MutexLock lock(mutex_);
  wanted_ = true;
  changed_.NotifyAll();
}

Store* LateStore::Peek() const {
  MutexLock lock(mutex_);
  return store_.get();
}

Store& LateStore::Wait() {
  Hurry();
  MutexLock lock(mutex_);
  while (store_ == nullptr) changed_.Wait(mutex_);
  return *store_;
}

Store* LateStore::ForReading() {
  Store* const open = Peek();
  return open != nullptr || fresh_ ? open : &Wait();
}

Result<uint64_t> LateStore::Read(Table table, const Digest& key, cache::Sink& sink) {
  Store* const store = ForReading();
  if (store == nullptr) return Absent(table, key);
  return store->Read(table, key, sink);
}

Result<uint64_t> LateStore::Put(Table table, const Digest& key, Bytes value, const cache::PutOptions& options) {
  return Wait().Put(table, key, value, options);
}

Result<bool> LateStore::Delete(Table table, const Digest& key, std::optional<uint64_t> expected) {
  return Wait().Delete(table, key, expected);
}

Result<Stat> LateStore::StatOf(Table table, const Digest& key) {
  Store* const store = ForReading();
  if (store == nullptr) return Absent(table, key);
  return store->StatOf(table, key);
}

void LateStore::Touch(Table table, const Digest& key) {
  if (Store* const store = Peek()) store->Touch(table, key);
}

Status LateStore::Pin(Table table, const Digest& key, bool pinned) { return Wait().Pin(table, key, pinned); }

Result<cache::Page<cache::StoreRow>> LateStore::List(Table table, const std::string& after, size_t limit) {
  Store* const store = ForReading();
  if (store == nullptr) return cache::Page<cache::StoreRow>();
  return store->List(table, after, limit);
}

Result<cache::Page<cache::GroupRow>> LateStore::ListGroup(Table table, const std::string& group,
                                                          const std::string& after, size_t limit) {
  Store* const store = ForReading();
  if (store == nullptr) return cache::Page<cache::GroupRow>();
  return store->ListGroup(table, group, after, limit);
}

Result<cache::Page<std::string>> LateStore::ListGroups(Table table, const std::string& after, size_t limit) {
  Store* const store = ForReading();
  if (store == nullptr) return cache::Page<std::string>();
  return store->ListGroups(table, after, limit);
}

Result<std::string> LateStore::GroupOf(Table table, const Digest& key) {
  Store* const store = ForReading();
  if (store == nullptr) return Absent(table, key);
  return store->GroupOf(table, key);
}

Result<cache::Page<cache::StoreRow>> LateStore::Cheapest(Table table, const std::string& after, size_t limit) {
  Store* const store = ForReading();
  if (store == nullptr) return cache::Page<cache::StoreRow>();
  return store->Cheapest(table, after, limit);
}

std::array<cache::Totals, cache::kTables> LateStore::TotalsOf() {
  Store* const store = Peek();
  return store == nullptr ? std::array<cache::Totals, cache::kTables>() : store->TotalsOf();
}

int64_t LateStore::half_life_s() const {
  const Store* const store = Peek();
  return store == nullptr ? 1 : store->half_life_s();
}

Status LateStore::ForEachDamaged(const std::function<bool(const cache::Damage&)>& fn) {
  return Wait().ForEachDamaged(fn);
}

Status LateStore::Compact(std::stop_token stop) { return Wait().Compact(std::move(stop)); }

std::string LateStore::Describe() const {
  const Store* const store = Peek();
  if (store != nullptr) return store->Describe();
  return fresh_ ? "fresh" : "opening";
}

std::string LateStore::Trouble() const {
  const Store* const store = Peek();
  return store == nullptr ? std::string() : store->Trouble();
}

}  // namespace ingot::daemon
