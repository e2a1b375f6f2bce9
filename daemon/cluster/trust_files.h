// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "cache/trust/signing_key.h"
#include "cache/trust/trust.h"
#include "daemon/state/config.h"

namespace ingot::daemon {

/// What this machine calls itself: cluster_host, or its host name.
std::string MachineName(const Config& config);

/// Whom this machine trusts and what it signs with (cluster_trust, cluster_key), for the cluster and for bundles.
struct TrustFiles {
  std::shared_ptr<cache::Trust> trust;            ///< Not read yet: Refresh() says whether it can be.
  std::shared_ptr<const cache::SigningKey> key;  ///< nullptr: there is none.
  std::string host;                              ///< What this machine calls itself.
};
/// Errors name the field: a key that may not or cannot be read, no home directory.
Result<TrustFiles> OpenTrustFiles(const Config& config);

}  // namespace ingot::daemon
