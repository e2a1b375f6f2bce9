// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.h"
#include "daemon/cluster/signed_variant.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// What a graph key came to, as somebody vouches for it: by the same door as variants. Its record has the envelope as
/// its origin, unless it has none.
struct ClaimedGraph : Claim {
  proto::GraphRecordT record;
};
/// Judges without the artifact, for the function that asks: not for the one that the record names, which had the graph
/// first. Without an asker nothing is served yet, and whoever asks later is judged then (Sharing::MayServe). kCorrupt:
/// `record` is none.
Result<ClaimedGraph> JudgeGraph(const VariantDoor& door, const std::optional<std::string>& asker,
                                const Digest& graph_key, Bytes record, Bytes envelope);

/// The bytes of a record that are signed: without by whose word it is here.
Buffer SharedBytesOf(const proto::GraphRecordT& record);
/// The envelope by which another machine has said exactly this.
std::optional<Buffer> EnvelopeOf(const proto::GraphRecordT& record, Bytes shared);
/// The envelope of a record whose shared bytes are `shared`; `artifact`: empty of a failure.
Result<Buffer> SignGraph(const Voucher& voucher, const Digest& graph_key, const proto::GraphRecordT& record,
                         Bytes shared, Bytes artifact);

}  // namespace ingot::daemon
