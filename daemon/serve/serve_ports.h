// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "cache/index/blob_store.h"
#include "cache/index/index.h"

namespace ingot::daemon {

/// What other daemons are served from. Used by several threads at once, which may block.
struct ServePorts {
  std::shared_ptr<cache::Index> index;
  std::shared_ptr<cache::BlobStore> blobs;
  /// Somebody has asked for a value and got it.
  std::function<void(cache::Table, const Digest&)> touch = [](cache::Table, const Digest&) {};
  /// Bytes of a blob before it is read; without a value: not known.
  std::function<std::optional<uint64_t>(const Digest&)> blob_bytes = [](const Digest&) { return std::nullopt; };
  /// Of this process, where `index` and `blobs` ask other daemons: one of the same identity is refused
  /// (RemoteClientOptions). Zero: they ask nobody.
  Digest asks_as;
  /// Something was written.
  std::function<void()> wrote = [] {};
};

}  // namespace ingot::daemon
