// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/weight_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/digest.h"
#include "base/filesystem.h"
#include "client/lib/exported/public_file.h"
#include "client/lib/exported/torch_names.h"

namespace ingot::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;
/// Bound of the format itself.
constexpr uint64_t kHeaderBytesMax = 100'000'000;
constexpr int kHeaderDepthMax = 8;
/// Names of the format in the order of guards::DType; none for complex128.
constexpr std::array<std::string_view, guards::kDTypeCount> kNames = {
    "BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64", "C64", "", "F8_E4M3", "F8_E5M2"};

Error CorruptWeights(const std::string& what) { return Error(Code::kCorrupt, "safetensors file: " + what); }

std::optional<Json> ParseTensorList(std::string_view text) {
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, Json::parse_event_t, Json&) {
    too_deep |= depth > kHeaderDepthMax;
    return !too_deep;
  };
  Json header = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep || !header.is_object()) return std::nullopt;
  return header;
}

/// nullopt for an element type without a name here.
Result<std::optional<StoredTensor>> ReadTensor(const std::string& name, const Json& spec, Bytes data) {
  const auto dtype = std::ranges::find(kNames, spec.at("dtype").get<std::string>());
  const auto offsets = spec.at("data_offsets").get<std::vector<uint64_t>>();
  StoredTensor tensor;
  tensor.sizes = spec.at("shape").get<std::vector<int64_t>>();
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size()) {
    return CorruptWeights(fmt::format("'{}' lies outside the file", name));
  }
  tensor.elements = data.subspan(offsets[0], offsets[1] - offsets[0]);
  if (dtype == kNames.end() || dtype->empty()) return std::optional<StoredTensor>();
  tensor.dtype = static_cast<guards::DType>(dtype - kNames.begin());
  uint64_t bytes = guards::SizeOf(tensor.dtype);
  for (const int64_t size : tensor.sizes) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) bytes = UINT64_MAX;
  }
  if (bytes != tensor.elements.size()) {
    return CorruptWeights(fmt::format("'{}' has {} bytes, which its sizes do not give", name, tensor.elements.size()));
  }
  return std::optional(std::move(tensor));
}

}  // namespace

Result<std::map<std::string, StoredTensor>> ParseSafetensors(Bytes bytes) {
  if (bytes.size() < kLengthBytes) return CorruptWeights("too short");
  const auto size = LoadLittle<uint64_t>(bytes, 0);
  if (size > kHeaderBytesMax || size > bytes.size() - kLengthBytes) return CorruptWeights("the header does not fit in");
  const std::optional<Json> header = ParseTensorList(AsText(bytes.subspan(kLengthBytes, size)));
  if (!header) return CorruptWeights("the header is not a JSON object");
  std::map<std::string, StoredTensor> tensors;
  try {
    for (const auto& [name, spec] : header->items()) {
      if (name == "__metadata__") continue;
      TRY_ASSIGN(std::optional<StoredTensor> tensor, ReadTensor(name, spec, bytes.subspan(kLengthBytes + size)));
      if (tensor) tensors.emplace(name, *std::move(tensor));
    }
  } catch (const nlohmann::json::exception& e) {
    return CorruptWeights(fmt::format("header: {}", e.what()));
  }
  return tensors;
}

std::string StateName(const std::string& path) { return path.starts_with("self.") ? path.substr(5) : path; }

WeightFile::Mapping::~Mapping() {
  if (size > 0) munmap(const_cast<uint8_t*>(bytes), size);
}

Result<WeightFile> WeightFile::Open(const std::string& path) {
  TRY_ASSIGN(const UniqueFd fd, OpenRegular(path));
  struct stat facts{};
  void* found = nullptr;
  const bool known = fstat(fd.get(), &facts) == 0;
  if (known && facts.st_size > 0)
    found = mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (!known || found == MAP_FAILED) return ErrorFromErrno(errno, "map " + path);
  WeightFile file;
  file.mapping_ =
      std::make_shared<const Mapping>(static_cast<const uint8_t*>(found), static_cast<size_t>(facts.st_size));
  auto tensors = ParseSafetensors({file.mapping_->bytes, file.mapping_->size});
  if (!tensors) return std::move(tensors).error().Wrap(path);
  file.tensors_ = *std::move(tensors);
  return file;
}

Status WeightFile::Write(const std::string& path, const std::vector<ExportedWeight>& weights) {
  Json header = Json::object();
  std::vector<Bytes> parts(1);
  uint64_t at = 0;
  for (const ExportedWeight& weight : weights) {
    const std::string_view dtype = kNames[static_cast<size_t>(weight.dtype)];
    if (dtype.empty()) {
      return Error(Code::kUnsupported, fmt::format("weight {}: safetensors has no name for {}; put weights inside",
                                                   weight.path, TorchNameOf(weight.dtype)));
    }
    const uint64_t end = at + weight.elements.size();
    header[StateName(weight.path)] = {{"dtype", dtype}, {"shape", weight.sizes}, {"data_offsets", {at, end}}};
    parts.push_back(weight.elements);
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes,
              ' ');  // Elements are aligned.
  Buffer head;
  AppendLittle(head, static_cast<uint64_t>(text.size()));
  head.insert(head.end(), text.begin(), text.end());
  parts[0] = head;
  return WritePublicFile(path, parts);
}

std::string WeightFile::NameOf(const ExportedWeight& weight) const {
  const auto holds = [&weight](const StoredTensor& tensor) {
    return tensor.dtype == weight.dtype && tensor.sizes == weight.sizes &&
           std::ranges::equal(tensor.elements, weight.elements);
  };
  const auto own = tensors_.find(StateName(weight.path));
  if (own != tensors_.end() && holds(own->second)) return own->first;
  const auto other = std::ranges::find_if(tensors_, [&holds](const auto& entry) { return holds(entry.second); });
  return other == tensors_.end() ? "" : other->first;
}

Result<Bytes> WeightFile::ElementsOf(const ExportedWeight& weight) const {
  const auto found = tensors_.find(weight.tensor);
  if (found == tensors_.end()) {
    return Error(Code::kNotFound,
                 fmt::format("weight {}: no tensor '{}' among {}", weight.path, weight.tensor, tensors_.size()));
  }
  const StoredTensor& tensor = found->second;
  if (tensor.dtype != weight.dtype || tensor.sizes != weight.sizes) {
    return Error(Code::kIncompatible,
                 fmt::format("weight {}: '{}' is {} {}, it was {} {} when it was exported", weight.path, weight.tensor,
                             TorchNameOf(tensor.dtype), tensor.sizes, TorchNameOf(weight.dtype), weight.sizes));
  }
  if (DigestOf(tensor.elements).ToHex() != weight.digest) {
    return Error(Code::kCorrupt, fmt::format("weight {}: '{}' has other values than when it was "
                                             "exported; export again, or restore the "
                                             "file",
                                             weight.path, weight.tensor));
  }
  return tensor.elements;
}

}  // namespace ingot::client
