// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/filesystem.h"

namespace ingot::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMagic{"INGOTEXP", 8};
constexpr uint32_t kVersion = 2;
constexpr size_t kDigestBytes = 32;
constexpr size_t kHeadBytes = 8 + 4 + 8;  // magic, version, bytes of the header
/// Bound on nesting of the header; result structures are at most 32 deep.
constexpr int kDepthMax = 200;
constexpr size_t kRankMax = 64;

/// Names of element types as torch prints them, in the order of guards::DType.
constexpr std::array<std::string_view, 12> kTorchNames = {
    "bool",    "uint8",    "int8",    "int16",   "int32",     "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};

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
  const auto found = std::find(kTorchNames.begin(), kTorchNames.end(), dtype);
  if (found == kTorchNames.end()) return Corrupt("unknown element type '" + dtype + "'");
  weight.dtype = static_cast<guards::DType>(found - kTorchNames.begin());
  weight.sizes = spec.at("sizes").get<std::vector<int64_t>>();
  weight.strides = spec.at("strides").get<std::vector<int64_t>>();
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
  for (const Json& spec : header.at("variants")) {
    TRY_ASSIGN(ExportedVariant variant, ReadVariant(spec, file.weights.size()));
    file.variants.push_back(std::move(variant));
  }
  if (file.variants.empty()) return Corrupt("has no variant");
  const Json& parts = header.at("blobs");
  if (!parts.is_array() || parts.size() != file.variants.size() + file.weights.size()) {
    return Corrupt("needs one part for each artifact and one for each weight");
  }
  TRY_ASSIGN(const std::vector<Bytes> blobs, ReadBlobs(parts, rest));
  for (size_t i = 0; i < file.variants.size(); ++i) file.variants[i].artifact = blobs[i];
  for (size_t i = 0; i < file.weights.size(); ++i) {
    ExportedWeight& weight = file.weights[i];
    weight.elements = blobs[file.variants.size() + i];
    if (BytesOf(weight) == weight.elements.size()) continue;
    return Corrupt(fmt::format("weight {} has {} bytes, which its sizes do not give", weight.path,
                              weight.elements.size()));
  }
  return file;
}

/// Everything behind the header, in order.
std::vector<Bytes> BlobsOf(const ExportedFile& file) {
  std::vector<Bytes> blobs;
  for (const ExportedVariant& variant : file.variants) blobs.push_back(variant.artifact);
  for (const ExportedWeight& weight : file.weights) blobs.push_back(weight.elements);
  return blobs;
}

Json HeaderOf(const ExportedFile& file) {
  Json variants = Json::array();
  for (const ExportedVariant& variant : file.variants) {
    Json outputs = Json::parse(variant.outputs, nullptr, /*allow_exceptions=*/false);
    Json& spec = variants.emplace_back(Json{{"outputs", std::move(outputs)}, {"proven", variant.proven}});
    if (!variant.range.empty()) spec["range"] = variant.range;
    spec["weights"] = variant.weights;
  }
  Json weights = Json::array();
  for (const ExportedWeight& weight : file.weights) {
    weights.push_back({{"path", weight.path},
                       {"dtype", kTorchNames[static_cast<size_t>(weight.dtype)]},
                       {"sizes", weight.sizes},
                       {"strides", weight.strides}});
  }
  Json blobs = Json::array();
  for (const Bytes blob : BlobsOf(file)) {
    blobs.push_back({{"bytes", blob.size()}, {"digest", DigestOf(blob).ToHex()}});
  }
  return {{"name", file.name}, {"variants", std::move(variants)}, {"weights", std::move(weights)},
          {"blobs", std::move(blobs)}};
}

bool Write(std::FILE* out, Bytes bytes) {
  return bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
}

}  // namespace

Result<ExportedFile> ParseExportedFile(Bytes bytes) {
  if (bytes.size() < kHeadBytes + kDigestBytes || AsText(bytes.first(8)) != kMagic) {
    return Error(Code::kCorrupt, "not an exported Ingot file");
  }
  const auto version = LoadLittle<uint32_t>(bytes, 8);
  if (version != kVersion) {
    return Error(Code::kIncompatible, fmt::format("exported file of format version {}, this build reads {}",
                                                  version, kVersion));
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

Status WriteExportedFile(const std::string& path, const ExportedFile& file) {
  if (file.variants.empty()) return Error(Code::kInvalid, path + ": a file needs a variant");
  for (const ExportedWeight& weight : file.weights) {
    if (BytesOf(weight) != weight.elements.size()) {
      return Error(Code::kInvalid, fmt::format("weight {} has {} bytes, which its sizes do not give", weight.path,
                                               weight.elements.size()));
    }
  }
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

  // Not base/filesystem.h: its files are private, while this one is as public as the user's umask.
  const std::string temporary = fmt::format("{}.{}.part", path, getpid());
  std::FILE* const out = std::fopen(temporary.c_str(), "wb");
  if (out == nullptr) return ErrorFromErrno(errno, "open " + temporary);
  bool written = Write(out, head);
  for (const Bytes blob : BlobsOf(file)) written = written && Write(out, blob);
  const int why = errno;
  // Buffered bytes may meet a full disk only here.
  const bool closed = std::fclose(out) == 0;
  const int why_closed = errno;
  Status status;
  if (!written || !closed) {
    status = ErrorFromErrno(written ? why_closed : why, "write " + temporary);
  } else if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrorFromErrno(errno, "rename " + temporary + " to " + path);
  }
  if (!status) std::remove(temporary.c_str());
  return status;
}

}  // namespace ingot::client
