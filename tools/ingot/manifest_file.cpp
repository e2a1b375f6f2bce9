// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/manifest_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/filesystem.h"

namespace ingot::tools {
namespace {

constexpr int kVersion = 1;
constexpr uint64_t kManifestBytesMax = 256u << 20;

}  // namespace

Result<Json> ReadManifest(const std::string& path) {
  TRY_ASSIGN(const Buffer bytes, RealFilesystem().Read(path, kManifestBytesMax));
  Json manifest = Json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest.contains("ingot_manifest")) {
    return Error(Code::kCorrupt,
                 fmt::format("{} is no manifest: no JSON with 'ingot_manifest', as `ingot manifest` writes it", path));
  }
  if (manifest["ingot_manifest"] != kVersion) {
    return Error(Code::kIncompatible, fmt::format("{} is a manifest of version {}, this build reads {}", path,
                                                  manifest["ingot_manifest"].dump(), kVersion));
  }
  if (!manifest.contains("entries") || !manifest["entries"].is_array()) {
    return Error(Code::kCorrupt, fmt::format("{}: 'entries' is no list", path));
  }
  for (const Json& entry : manifest["entries"]) {
    if (entry.is_object() && entry.contains("key") && entry["key"].is_string()) continue;
    return Error(Code::kCorrupt, fmt::format("{}: an entry without 'key'", path));
  }
  return std::move(manifest["entries"]);
}

Status WriteManifest(const std::string& path, const Json& entries) {
  const Json manifest = {{"ingot_manifest", kVersion}, {"made", std::time(nullptr)}, {"entries", entries}};
  const std::string text = manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::error_code failed;
  const std::filesystem::path file = std::filesystem::absolute(path, failed);
  if (failed) return Error(Code::kInvalid, fmt::format("{}: {}", path, failed.message()));
  return RealFilesystem().WriteAtomic(file.string(), AsBytes(text));
}

Result<Json> SelectionOf(const Arguments& arguments) {
  Json ask = {{"keys", arguments.List("keys")}};
  if (const std::string function = arguments.Text("--function"); !function.empty()) ask["function"] = function;
  if (arguments.Flag("all")) ask["all"] = true;
  if (const std::string since = arguments.Text("--since"); !since.empty()) {
    TRY_ASSIGN(const uint64_t seconds, SecondsOf(since, "--since"));
    ask["since"] = static_cast<uint64_t>(std::time(nullptr)) - std::min<uint64_t>(seconds, 1u << 30);
  }
  return ask;
}

}  // namespace ingot::tools
