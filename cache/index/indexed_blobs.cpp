// SPDX-License-Identifier: Apache-2.0
#include "cache/index/indexed_blobs.h"

#include <fmt/format.h>

namespace ingot::cache {
namespace {

RecordKey NameOf(const Digest& digest) { return {Table::kArtifacts, digest}; }

}  // namespace

Task<SealedRef> IndexedBlobs::Get(Digest digest, Until until) {
  std::vector<RecordKey> keys = {NameOf(digest)};
  CO_TRY_ASSIGN(const std::vector<Record> records, co_await index_->Get(std::move(keys), until));
  const Record& record = records.front();
  if (!record.exists()) co_return Error(Code::kNotFound, fmt::format("no blob {}", digest.ToHex()));
  if (DigestOf(record.value) != digest) {
    // Of this version only: somebody may have written it anew.
    Ignore(co_await index_->CompareAndDelete(NameOf(digest), record.version, until), "it is refused again next time");
    co_return Error(Code::kCorrupt, fmt::format("blob {} is not what its name says", digest.ToHex()));
  }
  co_return SealedFile::Copy(record.value);
}

Task<bool> IndexedBlobs::Put(Digest digest, SealedRef blob, double cost_s, Until until) {
  CO_TRY(until.Check());
  if (blob->size() > bytes_max_) {
    co_return Error(Code::kUnsupported,
                    fmt::format("{} bytes, and the index takes {} at most (cluster_index_blob_bytes_max); larger ones "
                                "need a store of blobs (cluster_blobs_endpoint)",
                                blob->size(), bytes_max_));
  }
  if (DigestOf(blob->bytes()) != digest) co_return Error(Code::kInvalid, "the bytes have another digest");
  RecordFacts facts;
  facts.cost_s = cost_s;
  Buffer value(blob->bytes().begin(), blob->bytes().end());
  // Another version stays: what stands under a digest is what the digest says, or found out when it is read.
  CO_TRY_ASSIGN(const uint64_t version,
                co_await index_->CompareAndSet(NameOf(digest), 0, std::move(value), std::move(facts), until));
  co_return version != 0;
}

Task<std::vector<bool>> IndexedBlobs::Has(std::vector<Digest> digests, Until until) {
  // The port has no question for presence alone; these values are small.
  std::vector<RecordKey> keys;
  for (const Digest& digest : digests) keys.push_back(NameOf(digest));
  CO_TRY_ASSIGN(const std::vector<Record> records, co_await index_->Get(std::move(keys), until));
  std::vector<bool> out;
  for (const Record& record : records) out.push_back(record.exists());
  co_return out;
}

Task<bool> IndexedBlobs::Delete(Digest digest, Until until) {
  while (true) {
    std::vector<RecordKey> keys = {NameOf(digest)};
    CO_TRY_ASSIGN(const std::vector<Record> records, co_await index_->Get(std::move(keys), until));
    if (!records.front().exists()) co_return false;
    CO_TRY_ASSIGN(const bool deleted,
                  co_await index_->CompareAndDelete(NameOf(digest), records.front().version, until));
    if (deleted) co_return true;
    CO_TRY(until.Check());
  }
}

std::string IndexedBlobs::Describe() const {
  return fmt::format("up to {} KiB each in {}", bytes_max_ >> 10, index_->Describe());
}

}  // namespace ingot::cache
