// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/until.h"
#include "cache/async/task.h"
#include "cache/index/blob_store.h"
#include "cache/index/index.h"
#include "cache/trust/provenance.h"

namespace ingot::cache {

/// How records of an index hold what is signed. The index does not know; whoever writes the records does.
/// Thread-safe.
class SignedRecords {
 public:
  virtual ~SignedRecords() = default;
  /// The envelopes in a record, in order. An Error: it cannot be read, and is left as it is.
  virtual Result<std::vector<Buffer>> EnvelopesOf(const RecordKey& key, Bytes value) const = 0;
  /// A record as it is to be written; an empty value: nothing is left to keep.
  struct Rest {
    Buffer value;
    RecordFacts facts;
  };
  /// The record without what these envelopes (positions, ascending) vouch for.
  virtual Result<Rest> Without(const RecordKey& key, Bytes value, const std::vector<size_t>& envelopes) const = 0;
};

/// How far a removal is.
struct Removed {
  uint64_t records_read = 0;
  uint64_t records_changed = 0;
  uint64_t records_deleted = 0;
  uint64_t envelopes = 0;   ///< Taken out of records.
  uint64_t blobs = 0;       ///< Deleted.
  uint64_t unreadable = 0;  ///< Records or envelopes in records that cannot be read; they are left alone.
  uint64_t contended = 0;   ///< Records that others changed each time they were to be: walk again.
};

/// What the walk looks for: true for provenance whose record is to go.
using IsRevoked = std::function<bool(const Provenance&)>;
/// Called after each page, on the caller's executor.
using OnRemoval = std::function<void(const Removed&)>;

/// Takes what is revoked out of one tier: looks through the records of entries and graphs, page by page, deletes the
/// artifacts that no other record vouches for by the same SHA-256, then rewrites or deletes the records. In that order
/// a walk that was stopped leaves nothing that the next one does not find. Signatures are not looked at: also a forged
/// record of a revoked key goes. What is written meanwhile may be missed; it is not served either, as long as the
/// revocation is in force. Memory grows with what is revoked, not with the tier.
/// Errors: those of the ports, kTimeout and kCancelled by `until`; what was removed stays removed.
Task<Removed> RemoveRevoked(Index& index, BlobStore& blobs, const SignedRecords& records, IsRevoked is_revoked,
                            OnRemoval on_page, Until until);

}  // namespace ingot::cache
