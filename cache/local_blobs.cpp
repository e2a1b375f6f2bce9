// SPDX-License-Identifier: Apache-2.0
#include "cache/local_blobs.h"

namespace ingot::cache {
namespace {

/// Memory that a store fills: known in size only once its record is read.
Result<SealedRef> ReadSealed(Store& store, const Digest& digest) {
  std::optional<SealedRoom> room;
  TRY(store.Read(Table::kArtifacts, digest, [&](uint64_t bytes) -> Result<uint8_t*> {
    room.reset();
    TRY_ASSIGN(room, SealedRoom::Make(bytes));
    return room->data();
  }));
  return std::move(*room).Seal();
}

}  // namespace

Task<SealedRef> LocalBlobs::Get(Digest digest, Until until) {
  CO_TRY(until.Check());
  co_return ReadSealed(store_, digest);
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
