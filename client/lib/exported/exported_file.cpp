// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/exported_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/digest.h"
#include "client/lib/exported/public_file.h"
#include "client/lib/exported/torch_names.h"

namespace ingot::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMagic{"INGOTEXP", 8};
constexpr uint32_t kVersion = 3;
constexpr size_t kDigestBytes = 32;
constexpr size_t kHeadBytes = 8 + 4 + 8;  // magic, version, bytes of the header
/// Bound on nesting of the header; structures of arguments and results are at most 33 deep.
constexpr int kDepthMax = 200;
constexpr size_t kRankMax = 64;

Error Corrupt(const std::string& what) { return Error(Code::kCorrupt, "exported file: " + what); }

std::optional<Json> ParseHeader(std::string_view text) {
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, Json::parse_event_t, Json&) {
    too_deep |= depth > kDepthMax;
    return !too_deep;
  };
  Json header = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep || header.is_discarded() || !header.is_object()) return std::nullopt;
  return header;
}

/// Bytes of a weight's elements; nullopt for sizes and strides that no tensor has.
std::optional<uint64_t> BytesOf(const ExportedWeight& weight) {
  if (weight.sizes.size() != weight.strides.size() || weight.sizes.size() > kRankMax) return {};
  uint64_t bytes = guards::SizeOf(weight.dtype);
  for (size_t i = 0; i < weight.sizes.size(); ++i) {
    if (weight.sizes[i] < 0 || weight.strides[i] < 0) return {};
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(weight.sizes[i]), &bytes)) return {};
  }
  return bytes;
}

Result<ExportedWeight> ReadWeight(const Json& spec) {
  ExportedWeight weight;
  weight.path = spec.at("path").get<std::string>();
  const auto dtype = spec.at("dtype").get<std::string>();
  const auto found = DTypeOfTorchName(dtype);
  if (!found) return Corrupt("unknown element type '" + dtype + "'");
  weight.dtype = *found;
  weight.sizes = spec.at("sizes").get<std::vector<int64_t>>();
  weight.strides = spec.at("strides").get<std::vector<int64_t>>();
  if (!BytesOf(weight)) return Corrupt("weight " + weight.path + " has impossible sizes");
  if (spec.contains("file")) {
    weight.file = spec.at("file").get<std::string>();
    weight.tensor = spec.at("tensor").get<std::string>();
    weight.digest = spec.at("digest").get<std::string>();
    if (weight.file.empty()) return Corrupt("weight " + weight.path + " is in a file without a name");
  }
  return weight;
}

Result<ExportedVariant> ReadVariant(const Json& spec, size_t weight_count) {
  ExportedVariant variant;
  variant.outputs = spec.at("outputs").dump();
  variant.proven = spec.at("proven").get<std::vector<std::vector<int64_t>>>();
  variant.range = spec.value("range", "");
  for (const Json& number : spec.at("weights")) {
    const auto at = number.get<uint64_t>();
    if (at >= weight_count) return Corrupt(fmt::format("a variant has weight {} of {}", at, weight_count));
    variant.weights.push_back(static_cast<uint32_t>(at));
  }
  return variant;
}

Result<ExportedStructure> ReadStructure(const Json& spec, size_t weight_count) {
  ExportedStructure structure;
  TRY_ASSIGN(structure.arguments, CallSignature::Parse(spec.at("arguments").dump()));
  for (const Json& variant : spec.at("variants")) {
    TRY_ASSIGN(ExportedVariant made, ReadVariant(variant, weight_count));
    structure.variants.push_back(std::move(made));
  }
  if (structure.variants.empty()) return Corrupt("an argument structure has no variant");
  return structure;
}

/// The blobs in order, each against its digest.
Result<std::vector<Bytes>> ReadBlobs(const Json& parts, Bytes rest) {
  std::vector<Bytes> blobs;
  for (const Json& part : parts) {
    const auto bytes = part.at("bytes").get<uint64_t>();
    if (bytes > rest.size()) return Corrupt(fmt::format("ends inside part {}", blobs.size()));
    blobs.push_back(rest.first(bytes));
    rest = rest.subspan(bytes);
    if (DigestOf(blobs.back()).ToHex() != part.at("digest").get<std::string>()) {
      return Corrupt(fmt::format("part {} does not match its digest", blobs.size() - 1));
    }
  }
  if (!rest.empty()) return Corrupt(fmt::format("{} bytes follow the last part", rest.size()));
  return blobs;
}

/// The header's fields after its digest matched. nlohmann throws where a field is missing or of
/// another kind; the one caller turns that into an Error.
Result<ExportedFile> ReadHeader(const Json& header, Bytes rest) {
  ExportedFile file;
  file.name = header.at("name").get<std::string>();
  for (const Json& spec : header.at("weights")) {
    TRY_ASSIGN(ExportedWeight weight, ReadWeight(spec));
    file.weights.push_back(std::move(weight));
  }
  size_t blob_count = 0;
  for (const Json& spec : header.at("structures")) {
    TRY_ASSIGN(ExportedStructure structure, ReadStructure(spec, file.weights.size()));
    blob_count += structure.variants.size();
    file.structures.push_back(std::move(structure));
  }
  if (file.structures.empty()) return Corrupt("has no variant");
  for (const ExportedWeight& weight : file.weights) blob_count += weight.file.empty() ? 1 : 0;
  const Json& parts = header.at("blobs");
  if (!parts.is_array() || parts.size() != blob_count) {
    return Corrupt("needs one part for each artifact and one for each weight inside");
  }
  TRY_ASSIGN(const std::vector<Bytes> blobs, ReadBlobs(parts, rest));
  auto blob = blobs.begin();
  for (ExportedStructure& structure : file.structures) {
    for (ExportedVariant& variant : structure.variants) variant.artifact = *blob++;
  }
  for (ExportedWeight& weight : file.weights) {
    if (!weight.file.empty()) continue;
    weight.elements = *blob++;
    if (BytesOf(weight) == weight.elements.size()) continue;
    return Corrupt(
        fmt::format("weight {} has {} bytes, which its sizes do not give", weight.path, weight.elements.size()));
  }
  return file;
}

/// Everything behind the header, in order.
std::vector<Bytes> BlobsOf(const ExportedFile& file) {
  std::vector<Bytes> blobs;
  for (const ExportedStructure& structure : file.structures) {
    for (const ExportedVariant& variant : structure.variants) blobs.push_back(variant.artifact);
  }
  for (const ExportedWeight& weight : file.weights) {
    if (weight.file.empty()) blobs.push_back(weight.elements);
  }
  return blobs;
}

Json JsonOf(const ExportedVariant& variant) {
  Json spec = {{"outputs", Json::parse(variant.outputs, nullptr, /*allow_exceptions=*/false)},
               {"proven", variant.proven}};
  if (!variant.range.empty()) spec["range"] = variant.range;
  spec["weights"] = variant.weights;
  return spec;
}

Json JsonOf(const ExportedWeight& weight) {
  Json spec = {{"path", weight.path},
               {"dtype", TorchNameOf(weight.dtype)},
               {"sizes", weight.sizes},
               {"strides", weight.strides}};
  if (!weight.file.empty()) {
    spec["file"] = weight.file;
    spec["tensor"] = weight.tensor;
    spec["digest"] = weight.digest;
  }
  return spec;
}

Json HeaderOf(const ExportedFile& file) {
  Json structures = Json::array();
  for (const ExportedStructure& structure : file.structures) {
    Json variants = Json::array();
    for (const ExportedVariant& variant : structure.variants) variants.push_back(JsonOf(variant));
    structures.push_back({{"arguments", Json::parse(structure.arguments.ToJson())}, {"variants", std::move(variants)}});
  }
  Json weights = Json::array();
  for (const ExportedWeight& weight : file.weights) weights.push_back(JsonOf(weight));
  Json blobs = Json::array();
  for (const Bytes blob : BlobsOf(file)) {
    blobs.push_back({{"bytes", blob.size()}, {"digest", DigestOf(blob).ToHex()}});
  }
  return {{"name", file.name},
          {"structures", std::move(structures)},
          {"weights", std::move(weights)},
          {"blobs", std::move(blobs)}};
}

Status Check(const ExportedFile& file) {
  const auto is_empty = [](const ExportedStructure& structure) { return structure.variants.empty(); };
  if (file.structures.empty() || std::ranges::any_of(file.structures, is_empty)) {
    return Error(Code::kInvalid, "a file needs a variant for each argument structure");
  }
  for (const ExportedWeight& weight : file.weights) {
    if (!weight.file.empty() || BytesOf(weight) == weight.elements.size()) continue;
    return Error(Code::kInvalid, fmt::format("weight {} has {} bytes, which its sizes do not give", weight.path,
                                             weight.elements.size()));
  }
  return {};
}

}  // namespace

Result<ExportedFile> ParseExportedFile(Bytes bytes) {
  if (bytes.size() < kHeadBytes + kDigestBytes || AsText(bytes.first(8)) != kMagic) {
    return Error(Code::kCorrupt, "not an exported Ingot file");
  }
  const auto version = LoadLittle<uint32_t>(bytes, 8);
  if (version != kVersion) {
    return Error(Code::kIncompatible,
                 fmt::format("exported file of format version {}, this build reads {}", version, kVersion));
  }
  const auto size = LoadLittle<uint64_t>(bytes, 12);
  const std::string_view digest = AsText(bytes.subspan(kHeadBytes, kDigestBytes));
  const Bytes rest = bytes.subspan(kHeadBytes + kDigestBytes);
  if (size > rest.size() || DigestOf(rest.first(size)).ToHex() != digest) {
    return Corrupt("the header does not match its digest");
  }
  const std::optional<Json> header = ParseHeader(AsText(rest.first(size)));
  if (!header) return Corrupt("the header is not a JSON object");
  try {
    return ReadHeader(*header, rest.subspan(size));
  } catch (const nlohmann::json::exception& e) {
    return Corrupt(fmt::format("header: {}", e.what()));
  }
}

Status WriteExportedFile(const std::string& path, const ExportedFile& file, std::optional<int> descriptor) {
  if (Status status = Check(file); !status) return std::move(status).error().Wrap(path);
  std::string text;
  try {
    text = HeaderOf(file).dump();
  } catch (const nlohmann::json::exception& e) {
    return Error(Code::kInvalid, fmt::format("{}: a name is not UTF-8 ({})", path, e.what()));
  }
  Buffer head(kMagic.begin(), kMagic.end());
  AppendLittle(head, kVersion);
  AppendLittle(head, static_cast<uint64_t>(text.size()));
  const std::string digest = DigestOf(text).ToHex();
  head.insert(head.end(), digest.begin(), digest.end());
  head.insert(head.end(), text.begin(), text.end());
  std::vector<Bytes> parts = BlobsOf(file);
  parts.insert(parts.begin(), head);
  if (!descriptor) return WritePublicFile(path, parts);
  if (Status written = WriteParts(*descriptor, parts); !written) return std::move(written).error().Wrap(path);
  return {};
}

}  // namespace ingot::client
