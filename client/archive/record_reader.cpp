// SPDX-License-Identifier: Apache-2.0
#include "client/archive/record_reader.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/filesystem.h"
#include "client/lib/run/tensor_memory.h"

namespace ingot::client {
namespace {

using caffe2::serialize::PyTorchStreamReader;

/// Deflate makes at most this many bytes out of one.
constexpr uint64_t kUnpackFactor = 1032;
/// Subgraphs and argument lists nest; a program nests tens of levels at most.
constexpr int kPickleDepthMax = 500;
constexpr size_t kRankMax = 64;

/// What a foreign exception says, without its stack.
std::string TextOf(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  return error == nullptr ? e.what() : error->what_without_backtrace();
}

/// An integer that may be written as {"as_int": n}.
Result<int64_t> Number(const nlohmann::json& json) {
  const nlohmann::json& number = json.is_object() ? json.at("as_int") : json;
  if (!number.is_number_integer()) return Error(Code::kCorrupt, "a size that is no integer");
  return number.get<int64_t>();
}

Result<std::vector<int64_t>> Numbers(const nlohmann::json& list) {
  std::vector<int64_t> numbers;
  for (const nlohmann::json& item : list) {
    TRY_ASSIGN(const int64_t number, Number(item));
    numbers.push_back(number);
  }
  return numbers;
}

/// Whether all elements lie inside `bytes`.
bool LiesInside(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t offset,
                uint64_t item_bytes, uint64_t bytes) {
  const auto is_negative = [](int64_t number) { return number < 0; };
  if (sizes.size() != strides.size() || sizes.size() > kRankMax || offset < 0 ||
      std::ranges::any_of(sizes, is_negative) || std::ranges::any_of(strides, is_negative)) {
    return false;
  }
  uint64_t end = static_cast<uint64_t>(offset);
  if (std::ranges::find(sizes, 0) == sizes.end()) {  // Else there is no element that could lie outside.
    for (size_t i = 0; i < sizes.size(); ++i) {
      uint64_t reach = 0;
      const auto steps = static_cast<uint64_t>(sizes[i]) - 1, stride = static_cast<uint64_t>(strides[i]);
      if (__builtin_mul_overflow(steps, stride, &reach) || __builtin_add_overflow(end, reach, &end)) return false;
    }
    if (__builtin_add_overflow(end, 1u, &end)) return false;
  }
  return !__builtin_mul_overflow(end, item_bytes, &end) && end <= bytes;
}

}  // namespace

std::optional<at::ScalarType> ScalarTypeFromArchive(int64_t number) {
  constexpr std::array kTypes = {at::kByte,          at::kChar,  at::kShort,   at::kInt,         at::kLong,
                                 at::kHalf,          at::kFloat, at::kDouble,  at::kComplexHalf, at::kComplexFloat,
                                 at::kComplexDouble, at::kBool,  at::kBFloat16};
  constexpr int64_t kFirstFloat8 = 29;
  if (number == kFirstFloat8) return at::kFloat8_e4m3fn;
  if (number == kFirstFloat8 + 1) return at::kFloat8_e5m2;
  if (number < 1 || number > static_cast<int64_t>(kTypes.size())) return std::nullopt;
  return kTypes[static_cast<size_t>(number - 1)];
}

RecordReader::RecordReader(std::unique_ptr<PyTorchStreamReader> reader, ZipSums sums, uint64_t file_bytes)
    : reader_(std::move(reader)), sums_(std::move(sums)), file_bytes_(file_bytes) {}
RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader::~RecordReader() = default;

Result<RecordReader> RecordReader::Open(const std::string& path) {
  // PyTorch opens it by its name, and would wait for a pipe.
  TRY(OpenRegular(path));
  std::error_code failed;
  const uint64_t bytes = std::filesystem::file_size(path, failed);
  if (failed) return Error(Code::kNotFound, fmt::format("{}: {}", path, failed.message()));
  try {
    auto opened = std::make_unique<PyTorchStreamReader>(path);
    TRY_ASSIGN(ZipSums sums, ReadZipSums(path));
    RecordReader reader(std::move(opened), std::move(sums), bytes);
    if (!reader.Has("archive_format")) {
      const bool older = reader.Has("serialized_exported_program.json");
      return Error(Code::kIncompatible, fmt::format("{} is {}", path,
                                                    older ? "an archive of an older PyTorch: load it and save it again "
                                                            "with torch.export.save of this one"
                                                          : "no archive of torch.export.save"));
    }
    return reader;
  } catch (const std::exception& e) {
    return Error(Code::kCorrupt, fmt::format("{} is no zip archive that can be read: {}", path, TextOf(e)));
  }
}

bool RecordReader::Has(const std::string& record) const { return reader_->hasRecord(record); }

Result<std::pair<at::DataPtr, size_t>> RecordReader::Read(const std::string& record) {
  try {
    if (!reader_->hasRecord(record)) return Error(Code::kCorrupt, fmt::format("record {} is missing", record));
    const uint64_t size = reader_->getRecordSize(record);
    if (size / kUnpackFactor > file_bytes_) {
      return Error(Code::kCorrupt, fmt::format("record {} claims {} bytes", record, size));
    }
    auto [data, bytes] = reader_->getRecord(record);
    const auto sum = sums_.find(record);
    if (sum == sums_.end() || sum->second != SumOf(data.get(), bytes)) {
      return Error(Code::kCorrupt, fmt::format("record {} is damaged: its checksum is another; copy or save the file "
                                               "again",
                                               record));
    }
    return std::pair<at::DataPtr, size_t>(std::move(data), bytes);
  } catch (const std::exception& e) {
    return Error(Code::kCorrupt, fmt::format("record {}: {}", record, TextOf(e)));
  }
}

Result<nlohmann::json> RecordReader::Json(const std::string& record) {
  TRY_ASSIGN(const auto bytes, Read(record));
  const auto* text = static_cast<const char*>(bytes.first.get());
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep |= depth > kPickleDepthMax;
    return !too_deep;
  };
  nlohmann::json json = nlohmann::json::parse(text, text + bytes.second, watch, /*allow_exceptions=*/false);
  if (too_deep || json.is_discarded() || !json.is_object()) {
    return Error(Code::kCorrupt, fmt::format("record {} is not a JSON object", record));
  }
  return json;
}

Result<at::Tensor> RecordReader::Tensor(const std::string& folder, const nlohmann::json& payload) {
  if (payload.value("use_pickle", false) || !payload.contains("tensor_meta") || payload["tensor_meta"].is_null()) {
    return Error(Code::kUnsupported, "is stored as a Python pickle, which is never loaded");
  }
  const nlohmann::json& meta = payload.at("tensor_meta");
  const std::optional<at::ScalarType> dtype = ScalarTypeFromArchive(meta.at("dtype").get<int64_t>());
  if (!dtype) return Error(Code::kUnsupported, fmt::format("has element type {}", meta.at("dtype").dump()));
  TRY_ASSIGN(const std::vector<int64_t> sizes, Numbers(meta.at("sizes")));
  TRY_ASSIGN(const std::vector<int64_t> strides, Numbers(meta.at("strides")));
  TRY_ASSIGN(const int64_t offset, Number(meta.at("storage_offset")));
  const std::string record = folder + payload.at("path_name").get<std::string>();
  auto known = storages_.find(record);
  if (known == storages_.end()) {
    TRY_ASSIGN(auto bytes, Read(record));
    const auto size = static_cast<int64_t>(bytes.second);
    c10::Storage storage(c10::Storage::use_byte_size_t(), size, std::move(bytes.first));
    known = storages_.emplace(record, std::move(storage)).first;
  }
  if (!LiesInside(sizes, strides, offset, c10::elementSize(*dtype), known->second.nbytes())) {
    return Error(Code::kCorrupt, fmt::format("does not lie inside the {} bytes of {}", known->second.nbytes(), record));
  }
  return WindowOf(known->second, *dtype, sizes, strides, offset);
}

}  // namespace ingot::client
