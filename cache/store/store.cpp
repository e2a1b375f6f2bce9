// SPDX-License-Identifier: Apache-2.0
#include "cache/store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cache/store/row.h"

namespace ingot::cache {

std::string_view NameOf(Table table) {
  static constexpr std::string_view kNames[kTables] = {"entries", "graphs", "artifacts", "stats"};
  return kNames[static_cast<size_t>(table)];
}

Result<Value> Store::Get(Table table, const Digest& key) {
  struct BufferSink final : Sink {
    Status Begin(uint64_t size) override {
      bytes.clear();
      bytes.reserve(size);
      return {};
    }
    Status Add(Bytes piece) override {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return {};
    }
    Buffer bytes;
  } sink;
  TRY_ASSIGN(const uint64_t version, Read(table, key, sink));
  return Value{std::move(sink.bytes), version};
}

Result<std::string> DigestCursor(std::string_view hex) {
  std::string all(hex);
  if (all.size() > 32) return Error(Code::kInvalid, fmt::format("'{}' has more than the 32 hex digits of a key", hex));
  all.resize(32, '0');
  TRY_ASSIGN(const Digest digest, Digest::FromHex(all));
  return RowKey(digest);
}

double ScoreOf(const Stat& stat, int64_t half_life_s) {
  // The damaged facts of a store must not make a value that sorts nowhere.
  const double cost_s = std::isfinite(stat.cost_s) ? std::max(stat.cost_s, 1e-6) : 1e-6;
  const double uses = 1.0 + static_cast<double>(stat.hits);
  return std::log2(cost_s * uses / static_cast<double>(std::max<uint64_t>(stat.bytes, 1))) +
         static_cast<double>(stat.used) / static_cast<double>(std::max<int64_t>(half_life_s, 1));
}

}  // namespace ingot::cache
