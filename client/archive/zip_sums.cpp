// SPDX-License-Identifier: Apache-2.0
#include "client/archive/zip_sums.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

namespace ingot::client {
namespace {

constexpr std::string_view kEnd("PK\x05\x06", 4), kEnd64("PK\x06\x06", 4), kLocator64("PK\x06\x07", 4),
    kEntry("PK\x01\x02", 4);
constexpr uint64_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46, kCommentBytesMax = 0xFFFF;

/// A number of `bytes` bytes at `at`, the lowest first; the caller has checked that it lies inside.
uint64_t NumberAt(std::string_view text, size_t at, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = bytes; i-- > 0;) number = number << 8 | static_cast<uint8_t>(text[at + i]);
  return number;
}

class ZipFile {
 public:
  explicit ZipFile(const std::string& path) : file_(path, std::ios::binary | std::ios::ate) {
    if (file_) bytes_ = static_cast<uint64_t>(file_.tellg());
  }

  uint64_t bytes() const { return bytes_; }

  /// Nothing where it reaches beyond the file.
  std::optional<std::string> Read(uint64_t at, uint64_t bytes) {
    if (at > bytes_ || bytes > bytes_ - at) return std::nullopt;
    std::string text(bytes, '\0');
    file_.seekg(static_cast<std::streamoff>(at));
    if (!file_.read(text.data(), static_cast<std::streamsize>(bytes))) return std::nullopt;
    return text;
  }

 private:
  std::ifstream file_;
  uint64_t bytes_ = 0;
};

/// The central directory, all of it.
std::optional<std::string> DirectoryOf(ZipFile& file) {
  const uint64_t tail_bytes = std::min(file.bytes(), kEndBytes + kCommentBytesMax);
  const auto tail = file.Read(file.bytes() - tail_bytes, tail_bytes);
  if (!tail) return std::nullopt;
  const size_t end = tail->rfind(kEnd);
  if (end == tail->npos || tail->size() - end < kEndBytes) return std::nullopt;
  uint64_t bytes = NumberAt(*tail, end + 12, 4), at = NumberAt(*tail, end + 16, 4);
  const uint64_t end_at = file.bytes() - tail_bytes + end;
  const auto locator = end_at < kLocatorBytes ? std::nullopt : file.Read(end_at - kLocatorBytes, kLocatorBytes);
  if (locator && locator->starts_with(kLocator64)) {
    const auto end64 = file.Read(NumberAt(*locator, 8, 8), kEnd64Bytes);
    if (!end64 || !end64->starts_with(kEnd64)) return std::nullopt;
    bytes = NumberAt(*end64, 40, 8);
    at = NumberAt(*end64, 48, 8);
  }
  return file.Read(at, bytes);
}

}  // namespace

Result<ZipSums> ReadZipSums(const std::string& path) {
  ZipFile file(path);
  const std::optional<std::string> directory = DirectoryOf(file);
  if (!directory) return Error(Code::kCorrupt, fmt::format("{} has no directory of records at its end", path));
  ZipSums sums;
  for (std::string_view rest = *directory; !rest.empty();) {
    if (rest.size() < kEntryBytes || !rest.starts_with(kEntry)) {
      return Error(Code::kCorrupt, fmt::format("{}: the directory of records is damaged", path));
    }
    const uint64_t name_bytes = NumberAt(rest, 28, 2);
    const uint64_t entry_bytes = kEntryBytes + name_bytes + NumberAt(rest, 30, 2) + NumberAt(rest, 32, 2);
    if (entry_bytes > rest.size()) {
      return Error(Code::kCorrupt, fmt::format("{}: the directory of records is damaged", path));
    }
    const std::string_view name = rest.substr(kEntryBytes, name_bytes);
    const size_t folder = name.find('/');
    const std::string_view record = folder == name.npos ? name : name.substr(folder + 1);
    sums.emplace(record, static_cast<uint32_t>(NumberAt(rest, 16, 4)));
    rest.remove_prefix(entry_bytes);
  }
  return sums;
}

uint32_t SumOf(const void* data, size_t bytes) {
  return static_cast<uint32_t>(crc32_z(0, static_cast<const unsigned char*>(data), bytes));
}

}  // namespace ingot::client
