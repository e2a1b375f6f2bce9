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
  if (store != nullptr) return store->Describe();
  return fresh_ ? "fresh" : "opening";
}

}  // namespace ingot::daemon
