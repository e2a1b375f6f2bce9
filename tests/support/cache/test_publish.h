// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/digest.h"
#include "cache/store/rocks_store.h"

namespace ingot::cache {

/// Bytes that do not compress, so that positions in files are positions in values.
inline Buffer TestValue(size_t size, uint32_t seed) {
  Buffer value(size);
  uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
  for (uint8_t& byte : value) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(x >> 56);
  }
  return value;
}

/// Options under which small values have chunks and blobs, and few writes make logs and tables change.
inline RocksStoreOptions PublishOptions() {
  RocksStoreOptions options;
  options.chunk_bytes = 4096;
  options.batch_bytes = 2 * options.chunk_bytes;
  options.disk_free_bytes_min = 0;
  options.db.blob_bytes_min = 2048;
  options.db.write_buffer_bytes = 64u << 10;
  return options;
}

/// One write of a program that publishes: an artifact in chunks, its graph's record, and an entry that names it.
struct Publish {
  Table table = Table::kArtifacts;
  Digest key;
  Buffer value;
  PutOptions options;

  Result<uint64_t> Do(Store& store) const { return store.Put(table, key, value, options); }
};

/// The n-th write of a round. Entries are those of few keys, so that rounds replace what others wrote.
inline Publish PublishOf(uint32_t round, uint32_t n) {
  const uint32_t seed = round * 1000 + n;
  Publish publish;
  switch (n % 3) {
    case 0:
      publish.value = TestValue((1 + seed % 5) * 4096 - 7, seed);
      publish.key = DigestOf(publish.value);
      break;
    case 1:
      publish.table = Table::kGraphs;
      publish.value = TestValue(40, seed);
      publish.key = {seed, 1};
      break;
    default:
      publish.table = Table::kEntries;
      publish.value = TestValue(100 + (n % 2) * 9000, seed);
      publish.key = {n % 5, 1};
      publish.options.group = "function";
      publish.options.summary = Buffer(16, uint8_t{7});
      break;
  }
  publish.options.cost_s = 1;
  return publish;
}

}  // namespace ingot::cache
