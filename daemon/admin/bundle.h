// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/until.h"
#include "daemon/admin/bundle_file.h"
#include "daemon/cluster/trust_files.h"
#include "daemon/core.h"
#include "daemon/state/progress.h"

namespace ingot::daemon {

/// What a bundle may have here, by the configuration.
BundleLimits BundleLimitsOf(const Config& config);

/// An entry that was left out of a bundle, or that is in one.
struct BundledEntry {
  Digest key;
  std::string function;
  uint64_t variants = 0;
  uint64_t bytes = 0;      ///< Of its record and of what it names.
  std::string signer;      ///< Id of the key that vouches for it; empty: none.
  std::string outcome;     ///< "new", "known", "refused", "left out".
  std::string why;         ///< Of what was refused or left out; may name a verdict (docs/trust.md).
};

struct BundleReport {
  uint64_t entries = 0, variants = 0, blobs = 0, bytes = 0;
  uint64_t added = 0, known = 0, refused = 0;
  /// Records of graphs: what equal graphs of other entries came to.
  uint64_t graphs = 0, graphs_added = 0, graphs_refused = 0;
  /// Of an export those that were left out, of an import all of them; at most list_entries_max.
  std::vector<BundledEntry> rows;
};

/// Writes entries, and what they name, into one file: records as they go to a cluster (docs/format/cluster.md), signed
/// by `key`, or by nobody where it is nullptr. What has no artifact here any more is left out. `file` is empty and open
/// for writing; after an error it is of no use.
Task<BundleReport> ExportBundle(Core& core, std::vector<Digest> entries, UniqueFd file, const cache::SigningKey* key,
                                std::string host, const Progress& progress, Until until);

struct ImportOptions {
  bool allow_unsigned = false;
  bool dry_run = false;  ///< Says what would come and changes nothing.
};
/// Takes what a bundle has into the local store. All of the file is read first: damage anywhere is an error, and
/// nothing is imported. Then each entry is judged by itself, as one from a cluster (daemon/cluster/signed_variant.h);
/// one that is not trusted is refused and the others come. The same bundle once more changes nothing.
Task<BundleReport> ImportBundle(Core& core, UniqueFd file, const cache::Trust& trust, ImportOptions options,
                                const Progress& progress, Until until);

}  // namespace ingot::daemon
