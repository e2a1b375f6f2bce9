// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/external_data.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/filesystem.h"

namespace ingot::onnx {
namespace {

namespace fs = std::filesystem;

/// nullopt where the text is no number of bytes.
std::optional<uint64_t> NumberAt(const std::map<std::string, std::string>& entries, const std::string& key,
                                 uint64_t otherwise) {
  const auto found = entries.find(key);
  if (found == entries.end()) return otherwise;
  uint64_t value = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto [at, error] = std::from_chars(found->second.data(), end, value);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  TRY_ASSIGN(const UniqueFd file, OpenRegular(path));
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return ErrorFromErrno(errno, "stat " + path);
  const auto size = static_cast<size_t>(status.st_size);
  void* data = size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return ErrorFromErrno(errno, "mmap " + path);
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const uint8_t*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

Result<std::shared_ptr<const MappedFile>> ExternalData::Open(const std::string& location) {
  std::shared_ptr<const MappedFile>& file = files_[location];
  if (file != nullptr) return file;
  const fs::path place(location);
  const bool climbs = std::ranges::any_of(place, [](const fs::path& part) { return part == ".."; });
  if (location.find('\0') != location.npos || place.is_absolute() || climbs) {
    return Error(Code::kInvalid, fmt::format("external data at '{}', outside of the model's folder", location));
  }
  std::error_code error;
  const fs::path folder = fs::canonical(folder_.empty() ? "." : folder_, error);
  if (error) return Error(Code::kNotFound, fmt::format("folder '{}': {}", folder_, error.message()));
  const fs::path whole = fs::canonical(folder / place, error);
  if (error) {
    return Error(Code::kNotFound, fmt::format("external data '{}': {}", (folder / place).string(), error.message()));
  }
  const fs::path relative = whole.lexically_relative(folder);
  if (relative.empty() || *relative.begin() == "..") {
    return Error(Code::kInvalid,
                 fmt::format("external data at '{}' is a link to {}, outside of the model's folder; copy it there",
                             location, whole.string()));
  }
  TRY_ASSIGN(file, MappedFile::Open(whole.string()));
  return file;
}

Result<ExternalData::Window> ExternalData::Find(const std::map<std::string, std::string>& entries, uint64_t size) {
  const auto location = entries.find("location");
  if (location == entries.end() || location->second.empty()) {
    return Error(Code::kCorrupt, "external data without a location");
  }
  const auto offset = NumberAt(entries, "offset", 0), length = NumberAt(entries, "length", size);
  if (!offset || !length) return Error(Code::kCorrupt, "external data whose offset or length is no number");
  if (*length != size) {
    return Error(Code::kCorrupt, fmt::format("external data of {} bytes, its sizes ask for {}", *length, size));
  }
  TRY_ASSIGN(std::shared_ptr<const MappedFile> file, Open(location->second));
  const Bytes all = file->bytes();
  if (*offset > all.size() || size > all.size() - *offset) {
    return Error(Code::kCorrupt, fmt::format("external data '{}' has {} bytes, asked for are {} from {}",
                                             location->second, all.size(), size, *offset));
  }
  return Window{std::move(file), all.subspan(*offset, size)};
}

}  // namespace ingot::onnx
