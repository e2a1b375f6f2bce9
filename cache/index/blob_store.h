// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/until.h"
#include "cache/async/task.h"
#include "cache/store/sealed_file.h"

namespace ingot::cache {

/// Immutable bytes by the digest of the bytes: artifacts and texts of graphs. One of the three ports of storage
/// (cache/index/index.h: records that change; cache/store/store.h: what one machine does for its own disk).
///
/// Since a name stands for one byte string, writing twice is harmless and nobody needs to be first. What is read has
/// been held against its name by the store that read it from disk or network; nobody checks it again.
/// Thread-safe. May block on a disk: awaited on an executor for that, never on one that must answer at once.
/// Errors of all calls: kTimeout and kCancelled by `until`; kUnavailable: the other side, trying later may help.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  /// kNotFound: the normal miss; kCorrupt: what was there is not what the name says, and is gone.
  virtual Task<SealedRef> Get(Digest digest, Until until) = 0;
  /// True when it was absent. kInvalid: the bytes have another digest; kExhausted: a limit, a full disk; kUnsupported:
  /// larger than it ever takes. `cost_s`: seconds that making it again would take.
  virtual Task<bool> Put(Digest digest, SealedRef blob, double cost_s, Until until) = 0;
  /// The same where what names the blob is written later, and durably: a store of one machine need not wait for its
  /// disk twice.
  virtual Task<bool> PutFirst(Digest digest, SealedRef blob, double cost_s, Until until) {
    return Put(digest, std::move(blob), cost_s, std::move(until));
  }
  /// Which of these are there, in order, without reading them.
  virtual Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) = 0;
  /// True when it was there.
  virtual Task<bool> Delete(Digest digest, Until until) = 0;
  /// One line for people: kind, place, state.
  virtual std::string Describe() const = 0;
};

}  // namespace ingot::cache
