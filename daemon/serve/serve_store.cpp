// SPDX-License-Identifier: Apache-2.0
#include "daemon/serve/serve_store.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/log.h"

namespace ingot::daemon {
namespace {

/// Fences that one life may give; more than leases can be taken in the seconds it lasts.
constexpr int kFencesOfSecond = 24;

}  // namespace

Result<uint64_t> NextFences(const std::string& dir, const Clock& clock) {
  const std::string path = dir + "/FENCES";
  uint64_t last = 0;
  if (const Result<Buffer> text = RealFilesystem().Read(path, 64)) {
    const std::string_view digits = AsText(*text).substr(0, AsText(*text).find('\n'));
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), last);
    if (code != std::errc() || end != digits.data() + digits.size()) {
      LogWarn("goes by the clock: its last fences cannot be read", {{"file", path}});
      last = 0;
    }
  } else if (text.error().code() != Code::kNotFound) {
    return text.error();
  }
  const uint64_t next = std::max<uint64_t>(last + 1, static_cast<uint64_t>(std::max<int64_t>(1, clock.now_s())));
  if (next >> (64 - kFencesOfSecond) != 0) return Error(Code::kCorrupt, path + " holds a number that is none of ours");
  TRY(RealFilesystem().WriteAtomic(path, AsBytes(std::to_string(next) + "\n")));
  return next << kFencesOfSecond;
}

ServeStore::ServeStore(const Config& config, std::unique_ptr<cache::Store> store, uint64_t first_fence,
                       const Clock& clock)
    : config_(config),
      store_(std::move(store)),
      index_(*store_, {.first_fence = first_fence, .leases_max = config.serve_leases_max}),
      blobs_(*store_),
      evictor_(*store_, clock),
      ticker_(std::chrono::seconds(std::max<uint64_t>(1, config.gc_interval_s)), [this] { Sweep(true); }) {}

Result<std::unique_ptr<ServeStore>> ServeStore::Open(const Config& config, const std::string& dir,
                                                     const cache::StoreOptions& options, const Clock& clock) {
  TRY(RealFilesystem().MakePrivateDirectory(dir, Access::kNobody));
  TRY_ASSIGN(std::unique_ptr<cache::Store> store, cache::OpenStore(dir + "/store", options));
  TRY_ASSIGN(const uint64_t first_fence, NextFences(dir, clock));
  return std::unique_ptr<ServeStore>(new ServeStore(config, std::move(store), first_fence, clock));
}

ServePorts ServeStore::ports() {
  ServePorts ports;
  ports.index = std::shared_ptr<cache::Index>(&index_, [](cache::Index*) {});
  ports.blobs = std::shared_ptr<cache::BlobStore>(&blobs_, [](cache::BlobStore*) {});
  ports.touch = [this](cache::Table table, const Digest& key) { store_->Touch(table, key); };
  ports.blob_bytes = [this](const Digest& key) -> std::optional<uint64_t> {
    const Result<cache::Stat> stat = store_->StatOf(cache::Table::kArtifacts, key);
    if (!stat) return 0;
    return stat->bytes;
  };
  ports.wrote = [this] { Sweep(false); };
  return ports;
}

void ServeStore::Sweep(bool always) {
  cache::EvictLimits limits;
  limits.bytes_max = config_.serve_store_bytes_max;
  limits.entries_max = config_.serve_store_entries_max;
  limits.age_s_max = static_cast<int64_t>(config_.gc_age_s_max);
  limits.grace_s = static_cast<int64_t>(config_.gc_grace_s);
  uint64_t bytes = 0;
  const auto totals = store_->TotalsOf();
  for (const cache::Totals& table : totals) bytes += table.bytes;
  const bool is_over =
      (limits.bytes_max != 0 && bytes > limits.bytes_max) ||
      (limits.entries_max != 0 && totals[static_cast<size_t>(cache::Table::kEntries)].count > limits.entries_max);
  if (!always && !is_over) return;
  MutexLock lock(mutex_);
  const Result<cache::EvictReport> report = evictor_.Step(limits);
  if (!report) LogWarn("evicted nothing of what is served", {{"reason", report.error()}});
}

}  // namespace ingot::daemon
