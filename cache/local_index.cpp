// SPDX-License-Identifier: Apache-2.0
#include "cache/local_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ingot::cache {
namespace {

Status CheckSizes(const Buffer& value, const RecordFacts& facts) {
  if (value.size() > kRecordBytesMax) {
    return Error(Code::kInvalid, fmt::format("a record of {} bytes, the limit is {}", value.size(), kRecordBytesMax));
  }
  if (facts.group.size() > kGroupBytesMax) {
    return Error(Code::kInvalid, fmt::format("a group of {} bytes, the limit is {}", facts.group.size(),
                                             kGroupBytesMax));
  }
  if (facts.summary.size() > kSummaryBytesMax) {
    return Error(Code::kInvalid, fmt::format("a summary of {} bytes, the limit is {}", facts.summary.size(),
                                             kSummaryBytesMax));
  }
  return {};
}

}  // namespace

Result<Record> LocalIndex::ReadRecord(const RecordKey& key) {
  Result<Value> value = store_.Get(key.table, key.digest);
  if (value) return Record{std::move(value->bytes), value->version};
  const Code code = value.error().code();
  if (code == Code::kNotFound || code == Code::kCorrupt) return Record{};
  return std::move(value).error();
}

Task<std::vector<Record>> LocalIndex::Get(std::vector<RecordKey> keys, Until until) {
  std::vector<Record> out;
  for (const RecordKey& key : keys) {
    CO_TRY(until.Check());
    CO_TRY_ASSIGN(Record record, ReadRecord(key));
    out.push_back(std::move(record));
  }
  co_return out;
}

Task<uint64_t> LocalIndex::CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts,
                                         Until until) {
  CO_TRY(until.Check());
  CO_TRY(CheckSizes(value, facts));
  const PutOptions options{facts.cost_s, expected, std::move(facts.group), std::move(facts.summary), facts.is_durable};
  CO_TRY_ASSIGN(const uint64_t version, store_.Put(key.table, key.digest, value, options));
  if (version != 0) Wake(&LocalIndex::record_waiters_, key.digest);
  co_return version;
}

Task<bool> LocalIndex::CompareAndDelete(RecordKey key, uint64_t expected, Until until) {
  CO_TRY(until.Check());
  CO_TRY_ASSIGN(const bool deleted, store_.Delete(key.table, key.digest, expected));
  if (deleted) Wake(&LocalIndex::record_waiters_, key.digest);
  co_return deleted;
}

Task<RecordPage> LocalIndex::List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                                  Until until) {
  CO_TRY(until.Check());
  RecordPage out;
  if (group) {
    CO_TRY_ASSIGN(Page<GroupRow> page, store_.ListGroup(table, *group, after, limit));
    out.next = std::move(page.next);
    for (GroupRow& row : page.rows) out.rows.push_back({row.key, std::move(row.summary), row.created});
    co_return out;
  }
  CO_TRY_ASSIGN(Page<StoreRow> page, store_.List(table, after, limit));
  out.next = std::move(page.next);
  for (const StoreRow& row : page.rows) out.rows.push_back({row.key, {}, row.stat.created});
  co_return out;
}

Task<Index::GroupPage> LocalIndex::Groups(Table table, std::string after, size_t limit, Until until) {
  CO_TRY(until.Check());
  CO_TRY_ASSIGN(Page<std::string> page, store_.ListGroups(table, after, limit));
  co_return GroupPage{std::move(page.rows), std::move(page.next)};
}

WaiterRef LocalIndex::Enlist(Waiters& waiters, const Digest& key) {
  auto waiter = std::make_shared<Waiter>();
  // Those who gave up are met by the next of their key.
  const auto [first, last] = waiters.equal_range(key);
  for (auto at = first; at != last;) at = at->second.expired() ? waiters.erase(at) : std::next(at);
  waiters.emplace(key, waiter);
  return waiter;
}

void LocalIndex::Wake(Waiters LocalIndex::*list, const Digest& key) {
  std::vector<WaiterRef> woken;
  {
    MutexLock lock(mutex_);
    Waiters& waiters = this->*list;
    const auto [first, last] = waiters.equal_range(key);
    for (auto at = first; at != last; ++at) {
      if (WaiterRef waiter = at->second.lock()) woken.push_back(std::move(waiter));
    }
    waiters.erase(first, last);
  }
  for (const WaiterRef& waiter : woken) waiter->Wake();
}

Task<Record> LocalIndex::Changed(RecordKey key, uint64_t seen, Until until) {
  while (true) {
    WaiterRef waiter;
    {
      // Before the record is read: what is written after that wakes it.
      MutexLock lock(mutex_);
      Sweep();
      waiter = Enlist(record_waiters_, key.digest);
    }
    CO_TRY_ASSIGN(Record record, ReadRecord(key));
    if (record.version != seen) co_return record;
    CO_TRY(co_await Waiter::Wait(waiter, until));
  }
}

void LocalIndex::Sweep() {
  const auto size = [this]() REQUIRES(mutex_) {
    return leases_.size() + record_waiters_.size() + lease_waiters_.size();
  };
  // At the limit each time, so that leases that have ended keep nobody from one.
  if (size() < sweep_at_ && leases_.size() < leases_max_) return;
  const SteadyTime now = SteadyNow();
  std::erase_if(leases_, [now](const auto& lease) { return lease.second.ends <= now; });
  for (Waiters* const waiters : {&record_waiters_, &lease_waiters_}) {
    std::erase_if(*waiters, [](const auto& waiter) { return waiter.second.expired(); });
  }
  sweep_at_ = std::max(kSweepMin, 2 * size());
}

Lease LocalIndex::LeaseOf(const Digest& key) {
  const auto found = leases_.find(key);
  if (found == leases_.end()) return {};
  const auto left = found->second.ends - SteadyNow();
  if (left <= std::chrono::nanoseconds(0)) {
    leases_.erase(found);
    return {};
  }
  return {found->second.fence, found->second.holder, found->second.progress,
          std::chrono::ceil<std::chrono::milliseconds>(left), false};
}

Task<Lease> LocalIndex::Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) {
  CO_TRY(until.Check());
  Held mine;
  {
    MutexLock lock(mutex_);
    if (Lease held = LeaseOf(key); held.fence != 0) co_return held;
    Sweep();
    if (leases_.size() >= leases_max_) {
      co_return Error(Code::kExhausted, fmt::format("{} leases are held, which is the limit", leases_.size()));
    }
    mine = {next_fence_++, std::move(holder), "", SteadyNow() + ttl};
    leases_[key] = mine;
  }
  Wake(&LocalIndex::lease_waiters_, key);
  co_return Lease{mine.fence, mine.holder, mine.progress, ttl, true};
}

Task<bool> LocalIndex::Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                             Until until) {
  CO_TRY(until.Check());
  {
    MutexLock lock(mutex_);
    if (LeaseOf(key).fence != fence) co_return false;
    Held& held = leases_[key];
    held.ends = SteadyNow() + ttl;
    if (held.progress == progress) co_return true;
    held.progress = std::move(progress);
  }
  Wake(&LocalIndex::lease_waiters_, key);
  co_return true;
}

Task<void> LocalIndex::Release(Digest key, uint64_t fence, Until until) {
  CO_TRY(until.Check());
  {
    MutexLock lock(mutex_);
    if (LeaseOf(key).fence != fence) co_return Status();
    leases_.erase(key);
  }
  Wake(&LocalIndex::lease_waiters_, key);
  co_return Status();
}

Task<Lease> LocalIndex::Watch(Digest key, uint64_t fence, std::string progress, Until until) {
  while (true) {
    WaiterRef waiter;
    Lease held;
    {
      MutexLock lock(mutex_);
      held = LeaseOf(key);
      if (held.fence != fence || held.progress != progress) co_return held;
      Sweep();
      waiter = Enlist(lease_waiters_, key);
    }
    // The end of a lease is a change as well.
    const Until change = held.fence == 0 ? until : until.AtMost(held.left);
    const Status woken = co_await Waiter::Wait(waiter, change);
    if (!woken) CO_TRY(until.Check());
  }
}

}  // namespace ingot::cache
