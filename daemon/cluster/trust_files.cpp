// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/trust_files.h"

#include <unistd.h>

#include <climits>
#include <filesystem>

namespace ingot::daemon {
namespace {

/// `given`, or a file of that name in the directory of trust.
Result<std::string> TrustFile(const std::string& given, const char* name) {
  if (!given.empty()) return given;
  TRY_ASSIGN(const std::string directory, cache::TrustDirectory());
  return directory + "/" + name;
}

}  // namespace

std::string MachineName(const Config& config) {
  if (!config.cluster_host.empty()) return config.cluster_host;
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

Result<TrustFiles> OpenTrustFiles(const Config& config) {
  TrustFiles files;
  files.host = MachineName(config);
  TRY_ASSIGN(const std::string key_file, TrustFile(config.cluster_key, "signing.key"));
  if (!config.cluster_key.empty() || std::filesystem::exists(key_file)) {
    Result<cache::SigningKey> key = cache::SigningKey::Load(key_file);
    if (!key) return std::move(key).error().Wrap("cluster_key");
    files.key = std::make_shared<const cache::SigningKey>(std::move(key).value());
  }
  cache::Trust::Options trust;
  TRY_ASSIGN(trust.path, TrustFile(config.cluster_trust, "trust.toml"));
  // Beside the trust file of this user, whichever file says whom to trust.
  TRY_ASSIGN(trust.quarantine_path, TrustFile("", "quarantine.toml"));
  if (files.key != nullptr) trust.own = files.key->public_key();
  files.trust = std::make_shared<cache::Trust>(std::move(trust), SystemClock());
  return files;
}

}  // namespace ingot::daemon
