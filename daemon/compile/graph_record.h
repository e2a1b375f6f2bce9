// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/until.h"
#include "cache/index/index.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// What is stored of a graph key: its artifact, or why it failed; none where nothing is.
cache::Task<std::optional<proto::GraphRecordT>> ReadGraphRecord(cache::Index& index, Digest graph_key, Until until);
/// The envelope by which it came from another machine; null: it was made here.
std::shared_ptr<const Buffer> OriginOf(const proto::GraphRecordT& record);
/// Zeros where nobody has kept them.
proto::StageSeconds StagesOf(const proto::GraphRecordT& record);
/// Takes the place of what is there.
cache::Task<void> PutGraphRecord(cache::Index& index, Digest graph_key, const proto::GraphRecordT& record, Until until);
/// The same where an entry that names it is written later, and durably.
cache::Task<void> PutGraphRecordFirst(cache::Index& index, Digest graph_key, const proto::GraphRecordT& record,
                                      Until until);

}  // namespace ingot::daemon
