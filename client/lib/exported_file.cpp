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
constexpr uint32_t kVersion = 1;
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

/// The header's fields after its digest matched. nlohmann throws where a field is missing or of
/// another kind; the one caller turns that into an Error.
Result<ExportedFile> ReadHeader(const Json& header, Bytes blobs) {
  ExportedFile file;
  file.name = header.at("name").get<std::string>();
  file.outputs = header.at("outputs").dump();
  file.proven = header.at("proven").get<std::vector<std::vector<int64_t>>>();
  file.range = header.value("range", "");
  for (const Json& spec : header.at("weights")) {
    ExportedWeight weight;
    weight.path = spec.at("path").get<std::string>();
    const auto dtype = spec.at("dtype").get<std::string>();
    const auto found = std::find(kTorchNames.begin(), kTorchNames.end(), dtype);
    if (found == kTorchNames.end()) return Corrupt("unknown element type '" + dtype + "'");
    weight.dtype = static_cast<guards::DType>(found - kTorchNames.begin());
    weight.sizes = spec.at("sizes").get<std::vector<int64_t>>();
    weight.strides = spec.at("strides").get<std::vector<int64_t>>();
    file.weights.push_back(std::move(weight));
  }
  const Json& parts = header.at("blobs");
  if (!parts.is_array() || parts.size() != file.weights.size() + 1) {
    return Corrupt("needs one part for the artifact and one for each weight");
  }
  size_t number = 0;
  for (const Json& part : parts) {
    const auto bytes = part.at("bytes").get<uint64_t>();
    if (bytes > blobs.size()) return Corrupt(fmt::format("ends inside part {}", number));
    const Bytes blob = blobs.first(bytes);
    blobs = blobs.subspan(bytes);
    if (DigestOf(blob).ToHex() != part.at("digest").get<std::string>()) {
      return Corrupt(fmt::format("part {} does not match its digest", number));
    }
    if (number == 0) {
      file.artifact = blob;
    } else {
      ExportedWeight& weight = file.weights[number - 1];
      weight.elements = blob;
      if (BytesOf(weight) != bytes) {
        return Corrupt(fmt::format("weight {} has {} bytes, which its sizes do not give", weight.path, bytes));
      }
    }
    ++number;
  }
  if (!blobs.empty()) return Corrupt(fmt::format("{} bytes follow the last part", blobs.size()));
  return file;
}

Json HeaderOf(const ExportedFile& file) {
  Json weights = Json::array();
  Json blobs = Json::array();
  const auto add_blob = [&blobs](Bytes bytes) {
    blobs.push_back({{"bytes", bytes.size()}, {"digest", DigestOf(bytes).ToHex()}});
  };
  add_blob(file.artifact);
  for (const ExportedWeight& weight : file.weights) {
    weights.push_back({{"path", weight.path},
                       {"dtype", kTorchNames[static_cast<size_t>(weight.dtype)]},
                       {"sizes", weight.sizes},
                       {"strides", weight.strides}});
    add_blob(weight.elements);
  }
  Json header = {{"name", file.name},
                 {"outputs", Json::parse(file.outputs, nullptr, /*allow_exceptions=*/false)},
                 {"proven", file.proven}};
  if (!file.range.empty()) header["range"] = file.range;
  header["weights"] = std::move(weights);
  header["blobs"] = std::move(blobs);
  return header;
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
  bool written = Write(out, head) && Write(out, file.artifact);
  for (const ExportedWeight& weight : file.weights) written = written && Write(out, weight.elements);
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
