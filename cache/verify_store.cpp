// SPDX-License-Identifier: Apache-2.0
#include "cache/verify_store.h"

#include <fmt/format.h>

#include "base/log.h"

namespace ingot::cache {
namespace {

Status CheckName(Table table, const Digest& key, Bytes value) {
  if (table != Table::kArtifacts) return {};
  const Digest digest = DigestOf(value);
  if (digest == key) return {};
  return Error(Code::kInvalid, fmt::format("artifact {} has bytes whose digest is {}", key.ToHex(),
                                           digest.ToHex()));
}

}  // namespace

Result<Buffer> VerifyStore::Get(Table table, const Digest& key) {
  TRY_ASSIGN(Buffer value, behind_->Get(table, key));
  const Status named = CheckName(table, key, value);
  if (named) return value;
  metrics_.Add(Counter::store_corrupt);
  LogWarn("deleted an artifact that is not what its name says", {{"reason", named.error()}});
  Ignore(behind_->Delete(table, key), "the next read is refused again");
  return Error(Code::kCorrupt, named.error().message());
}

Status VerifyStore::Put(Table table, const Digest& key, Bytes value, double cost_s) {
  TRY(CheckName(table, key, value));
  return behind_->Put(table, key, value, cost_s);
}

Result<bool> VerifyStore::PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) {
  TRY(CheckName(table, key, value));
  return behind_->PutIfAbsent(table, key, value, cost_s);
}

}  // namespace ingot::cache
