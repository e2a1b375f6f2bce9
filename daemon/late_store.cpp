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
  if (thread_.joinable()) thread_.join();
}

void LateStore::Open(Opener open, std::function<void()> opened) {
  thread_ = std::thread([this, open = std::move(open), opened = std::move(opened)] {
    std::unique_ptr<Store> store = open();
    {
      MutexLock lock(mutex_);
      store_ = std::move(store);
      opened_.NotifyAll();
    }
    opened();
  });
}

Store* LateStore::Peek() const {
  MutexLock lock(mutex_);
  return store_.get();
}

Store& LateStore::Wait() {
  MutexLock lock(mutex_);
  while (store_ == nullptr) opened_.Wait(mutex_);
  return *store_;
}

Store* LateStore::ForReading() {
  Store* const open = Peek();
  return open != nullptr || fresh_ ? open : &Wait();
}

Result<Buffer> LateStore::Get(Table table, const Digest& key) {
  Store* const store = ForReading();
  if (store == nullptr) return Absent(table, key);
  return store->Get(table, key);
}

Status LateStore::Put(Table table, const Digest& key, Bytes value, double cost_s) {
  return Wait().Put(table, key, value, cost_s);
}

Result<bool> LateStore::PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) {
  return Wait().PutIfAbsent(table, key, value, cost_s);
}

Status LateStore::Delete(Table table, const Digest& key) { return Wait().Delete(table, key); }

Result<Stat> LateStore::StatOf(Table table, const Digest& key) {
  Store* const store = ForReading();
  if (store == nullptr) return Absent(table, key);
  return store->StatOf(table, key);
}

void LateStore::Touch(Table table, const Digest& key) {
  if (Store* const store = Peek()) store->Touch(table, key);
}

Status LateStore::Pin(Table table, const Digest& key, bool pinned) {
  return Wait().Pin(table, key, pinned);
}

Status LateStore::ForEach(Table table, const std::function<bool(const Digest&, const Stat&)>& fn) {
  Store* const store = ForReading();
  if (store == nullptr) return {};
  return store->ForEach(table, fn);
}

Status LateStore::ForEachDamaged(const std::function<bool(const cache::Damage&)>& fn) {
  return Wait().ForEachDamaged(fn);
}

Status LateStore::Compact() { return Wait().Compact(); }

std::string LateStore::Describe() const {
  const Store* const store = Peek();
  return store == nullptr ? "opening" : store->Describe();
}

}  // namespace ingot::daemon
