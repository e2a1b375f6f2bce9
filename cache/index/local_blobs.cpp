// SPDX-License-Identifier: Apache-2.0
#include "cache/index/local_blobs.h"

#include <optional>

namespace ingot::cache {
namespace {

/// From the store's pages to those that clients map, in one copy.
struct SealedSink final : Sink {
  Status Begin(uint64_t) override {
    TRY_ASSIGN(writer, SealedWriter::Make());
    return {};
  }
  Status Add(Bytes piece) override { return writer->Add(piece); }
  std::optional<SealedWriter> writer;
};

}  // namespace

Task<SealedRef> LocalBlobs::Get(Digest digest, Until until) {
  CO_TRY(until.Check());
  SealedSink sink;
  CO_TRY(store_.Read(Table::kArtifacts, digest, sink));
  co_return std::move(*sink.writer).Seal();
}

Task<bool> LocalBlobs::Put(Digest digest, SealedRef blob, double cost_s, Until until) {
  return PutBlob(digest, std::move(blob), {.cost_s = cost_s, .expected = 0}, std::move(until));
}

Task<bool> LocalBlobs::PutFirst(Digest digest, SealedRef blob, double cost_s, Until until) {
  return PutBlob(digest, std::move(blob), {.cost_s = cost_s, .expected = 0, .is_durable = false}, std::move(until));
}

Task<bool> LocalBlobs::PutBlob(Digest digest, SealedRef blob, PutOptions options, Until until) {
  CO_TRY(until.Check());
  CO_TRY_ASSIGN(const uint64_t version, store_.Put(Table::kArtifacts, digest, blob->bytes(), options));
  // It is about to be named again, and must not go as one that nobody has asked for of late.
  if (version == 0) store_.Touch(Table::kArtifacts, digest);
  co_return version != 0;
}

Task<std::vector<bool>> LocalBlobs::Has(std::vector<Digest> digests, Until until) {
  std::vector<bool> out;
  for (const Digest& digest : digests) {
    CO_TRY(until.Check());
    const Result<Stat> stat = store_.StatOf(Table::kArtifacts, digest);
    // Facts that cannot be read are those of a value that may be whole.
    out.push_back(stat || stat.error().code() == Code::kCorrupt);
  }
  co_return out;
}

Task<bool> LocalBlobs::Delete(Digest digest, Until until) {
  CO_TRY(until.Check());
  const Result<bool> deleted = store_.Delete(Table::kArtifacts, digest);
  if (!deleted && deleted.error().code() == Code::kNotFound) co_return false;
  co_return deleted;
}

}  // namespace ingot::cache
