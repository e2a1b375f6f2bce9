// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/removal.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ingot::cache {
namespace {

constexpr size_t kPageRows = 256;
constexpr int kTriesMax = 8;

/// One removal from one tier.
class Walk {
 public:
  Walk(Index& index, BlobStore& blobs, const SignedRecords& records, const IsRevoked& is_revoked,
       const OnRemoval& on_page, Until until)
      : index_(index),
        blobs_(blobs),
        records_(records),
        is_revoked_(is_revoked),
        on_page_(on_page),
        until_(std::move(until)) {}

  Task<Removed> Run() {
    const auto collect = [this](const RecordKey& key, Bytes value) { Collect(key, value); };
    CO_TRY(co_await EachRecord(collect));
    // Another look only where there is something to remove.
    if (!artifacts_.empty()) {
      const auto spare = [this](const RecordKey& key, Bytes value) { Spare(key, value); };
      CO_TRY(co_await EachRecord(spare));
    }
    for (const auto& [artifact, hashes] : artifacts_) {
      CO_TRY(until_.Check());
      CO_TRY_ASSIGN(const bool was_there, co_await blobs_.Delete(artifact, until_));
      removed_.blobs += was_there;
    }
    for (size_t i = 0; i < keys_.size(); ++i) {
      CO_TRY(until_.Check());
      CO_TRY(co_await Clean(keys_[i]));
      if (on_page_ && (i + 1) % kPageRows == 0) on_page_(removed_);
    }
    if (on_page_) on_page_(removed_);
    co_return removed_;
  }

 private:
  using Look = std::function<void(const RecordKey&, Bytes)>;

  Task<void> EachRecord(Look look) {
    for (const Table table : {Table::kEntries, Table::kGraphs}) {
      std::string next;
      do {
        CO_TRY(until_.Check());
        CO_TRY_ASSIGN(const RecordPage page, co_await index_.List(table, std::nullopt, next, kPageRows, until_));
        next = page.next;
        std::vector<RecordKey> keys;
        for (const RecordPage::Row& row : page.rows) keys.push_back({table, row.digest});
        if (keys.empty()) continue;
        CO_TRY_ASSIGN(const std::vector<Record> found, co_await index_.Get(keys, until_));
        for (size_t i = 0; i < keys.size(); ++i) {
          if (found[i].exists()) look(keys[i], found[i].value);
        }
        if (on_page_) on_page_(removed_);
      } while (!next.empty());
    }
    co_return Result<void>();
  }

  /// What each envelope of a record says; nothing for those that are absent or cannot be read. None: the record
  /// itself cannot be.
  std::optional<std::vector<std::optional<Provenance>>> Read(const RecordKey& key, Bytes value, uint64_t& unreadable) {
    const Result<std::vector<Buffer>> envelopes = records_.EnvelopesOf(key, value);
    if (!envelopes) {
      ++unreadable;
      return std::nullopt;
    }
    std::vector<std::optional<Provenance>> out;
    for (const Buffer& bytes : *envelopes) {
      out.emplace_back();
      // Without a signature there is nothing to revoke, and nothing is served.
      if (bytes.empty()) continue;
      const Result<Envelope> envelope = DecodeEnvelope(bytes);
      Result<Provenance> provenance = envelope ? DecodeProvenance(envelope->provenance) : envelope.error();
      if (provenance) {
        out.back() = std::move(*provenance);
      } else {
        ++unreadable;
      }
    }
    return out;
  }

  void Collect(const RecordKey& key, Bytes value) {
    ++removed_.records_read;
    const auto all = Read(key, value, removed_.unreadable);
    if (!all) return;
    bool hit = false;
    for (const std::optional<Provenance>& provenance : *all) {
      if (!provenance || !is_revoked_(*provenance)) continue;
      hit = true;
      artifacts_[provenance->artifact].insert(provenance->artifact_sha256);
    }
    if (hit) keys_.push_back(key);
  }

  /// Others made the same bytes: they stay. Where they made other bytes of that digest, nobody knows which are stored.
  void Spare(const RecordKey& key, Bytes value) {
    uint64_t unreadable = 0;
    const auto all = Read(key, value, unreadable);
    if (!all) return;
    for (const std::optional<Provenance>& provenance : *all) {
      if (!provenance || is_revoked_(*provenance)) continue;
      const auto at = artifacts_.find(provenance->artifact);
      if (at != artifacts_.end() && at->second == std::set{provenance->artifact_sha256}) artifacts_.erase(at);
    }
  }

  Task<void> Clean(RecordKey key) {
    for (int tries = 0; tries < kTriesMax; ++tries) {
      CO_TRY_ASSIGN(const std::vector<Record> records, co_await index_.Get(std::vector<RecordKey>(1, key), until_));
      const Record& record = records[0];
      if (!record.exists()) co_return Result<void>();
      uint64_t unreadable = 0;
      const auto all = Read(key, record.value, unreadable);
      if (!all) co_return Result<void>();
      std::vector<size_t> revoked;
      for (size_t i = 0; i < all->size(); ++i) {
        if ((*all)[i] && is_revoked_(*(*all)[i])) revoked.push_back(i);
      }
      if (revoked.empty()) co_return Result<void>();
      Result<SignedRecords::Rest> rest = records_.Without(key, record.value, revoked);
      if (!rest) {
        ++removed_.unreadable;
        co_return Result<void>();
      }
      const bool deletes = rest->value.empty();
      bool done = false;
      if (deletes) {
        CO_TRY_ASSIGN(done, co_await index_.CompareAndDelete(key, record.version, until_));
      } else {
        CO_TRY_ASSIGN(const uint64_t version, co_await index_.CompareAndSet(key, record.version, std::move(rest->value),
                                                                            std::move(rest->facts), until_));
        done = version != 0;
      }
      if (done) {
        ++(deletes ? removed_.records_deleted : removed_.records_changed);
        removed_.envelopes += revoked.size();
        co_return Result<void>();
      }
    }
    ++removed_.contended;
    co_return Result<void>();
  }

  Index& index_;
  BlobStore& blobs_;
  const SignedRecords& records_;
  const IsRevoked& is_revoked_;
  const OnRemoval& on_page_;
  const Until until_;
  Removed removed_;
  /// Records in which something is revoked.
  std::vector<RecordKey> keys_;
  /// Artifacts of what is revoked that nobody else vouches for, with all that they were said to hold.
  std::map<Digest, std::set<Sha256>> artifacts_;
};

}  // namespace

Task<Removed> RemoveRevoked(Index& index, BlobStore& blobs, const SignedRecords& records, IsRevoked is_revoked,
                            OnRemoval on_page, Until until) {
  Walk walk(index, blobs, records, is_revoked, on_page, until);
  co_return co_await walk.Run();
}

}  // namespace ingot::cache
