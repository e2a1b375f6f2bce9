// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "cache/store/rocks_db.h"
#include "cache/store/row.h"
#include "cache/store/store.h"

namespace ingot::cache {

// Pages of the rows beside the values, in key order, each as the rows were at the time of the call. `after` is the
// `next` of the page before: kInvalid where it is not. At most `limit` rows.

/// What is known of the values of a table, less what is not written yet; facts that cannot be read make a value that is
/// worth nothing to keep.
Result<Page<StoreRow>> PageOfFacts(RocksDb& db, Table table, const std::string& after, size_t limit);
Result<Page<GroupRow>> PageOfGroup(RocksDb& db, Table table, const std::string& group, const std::string& after,
                                   size_t limit);
Result<Page<std::string>> PageOfGroupNames(RocksDb& db, Table table, const std::string& after, size_t limit);
/// Order keys (row.h), which may belong to no value.
Result<Page<std::string>> PageOfOrder(RocksDb& db, Table table, const std::string& after, size_t limit);

}  // namespace ingot::cache
