// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "cache/index/local_blobs.h"
#include "cache/index/local_index.h"
#include "cache/store/evict.h"
#include "cache/store/open_store.h"
#include "daemon/serve/serve_ports.h"
#include "daemon/state/config.h"
#include "daemon/state/ticker.h"

namespace ingot::daemon {

/// A number above all fences that were given from this directory before, also where its store was lost: kept in a file,
/// and never below the clock. kExhausted, kUnavailable: it cannot be kept.
Result<uint64_t> NextFences(const std::string& dir, const Clock& clock);

/// The store of a serving daemon: its own, beside the local one, held to its limits. Outlives whoever uses `ports`.
class ServeStore {
 public:
  static Result<std::unique_ptr<ServeStore>> Open(const Config& config, const std::string& dir,
                                                  const cache::StoreOptions& options, const Clock& clock);
  ServePorts ports();
  cache::Store& store() { return *store_; }

 private:
  ServeStore(const Config& config, std::unique_ptr<cache::Store> store, uint64_t first_fence, const Clock& clock);
  /// Evicts where a limit does not hold; a bounded step each time.
  void Sweep(bool always);

  const Config& config_;
  const std::unique_ptr<cache::Store> store_;
  cache::LocalIndex index_;
  cache::LocalBlobs blobs_;
  Mutex mutex_;
  cache::Evictor evictor_ GUARDED_BY(mutex_);
  Ticker ticker_;  // Last, so it ends first.
};

}  // namespace ingot::daemon
