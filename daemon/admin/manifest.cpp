// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/manifest.h"

#include <fmt/format.h>

namespace ingot::daemon {
namespace {

using ManifestJson = nlohmann::ordered_json;

Result<Digest> DigestIn(const ManifestJson& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_string()) return Error(Code::kInvalid, fmt::format("'{}' is missing", name));
  Result<Digest> digest = Digest::FromHex(at->get_ref<const std::string&>());
  if (!digest) return Error(Code::kInvalid, fmt::format("'{}' is not 32 hex digits", name));
  return digest;
}

}  // namespace

ManifestJson ToJson(const ManifestEntry& entry) {
  ManifestJson variants = ManifestJson::array();
  for (const ManifestEntry::Variant& one : entry.variants) {
    variants.push_back({{"graph_key", one.graph_key.ToHex()},
                        {"artifact", one.artifact.ToHex()},
                        {"artifact_bytes", one.artifact_bytes}});
  }
  return {{"key", entry.key.ToHex()}, {"function", entry.function}, {"variants", std::move(variants)}};
}

Result<ManifestEntry> ManifestEntryOf(const ManifestJson& json) {
  if (!json.is_object()) return Error(Code::kInvalid, "an entry is no object");
  ManifestEntry entry;
  TRY_ASSIGN(entry.key, DigestIn(json, "key"));
  const auto function = json.find("function");
  if (function != json.end() && function->is_string()) entry.function = function->get<std::string>();
  const auto variants = json.find("variants");
  if (variants == json.end()) return entry;
  if (!variants->is_array()) return Error(Code::kInvalid, "'variants' is no list");
  for (const ManifestJson& one : *variants) {
    if (!one.is_object()) return Error(Code::kInvalid, "a variant is no object");
    ManifestEntry::Variant variant;
    TRY_ASSIGN(variant.graph_key, DigestIn(one, "graph_key"));
    TRY_ASSIGN(variant.artifact, DigestIn(one, "artifact"));
    const auto bytes = one.find("artifact_bytes");
    if (bytes != one.end() && bytes->is_number_unsigned()) variant.artifact_bytes = bytes->get<uint64_t>();
    entry.variants.push_back(variant);
  }
  return entry;
}

}  // namespace ingot::daemon
