// SPDX-License-Identifier: Apache-2.0
#include "cache/store/store_dir.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace ingot::cache {
namespace {

constexpr std::string_view kVersionPrefix = "ingot-store ";
constexpr uint64_t kSmallFileBytesMax = 4096;

/// The name of the next place: one more than the highest of this second, never a freed one, so
/// that names sort by age.
std::string NextAside(const std::vector<std::string>& names, int64_t now_s) {
  const std::string second = fmt::format("{:012}-", now_s);
  int next = 0;
  for (const std::string& name : names) {
    if (!name.starts_with(second)) continue;
    int n = 0;
    std::from_chars(name.data() + second.size(), name.data() + name.size(), n);
    next = std::max(next, n + 1);
  }
  return fmt::format("{}{:03}", second, next);
}

}  // namespace

Result<StoreDir> StoreDir::Open(const std::string& path, Filesystem& filesystem, const proto::LockFile* held) {
  TRY(filesystem.MakePrivateDirectory(path, Access::kNobody));
  StoreDir dir(path, filesystem);
  if (held == nullptr) {
    TRY_ASSIGN(dir.lock_, proto::LockFile::Take(LockIn(path)));
    if (!dir.lock_) {
      const proto::LockHolder holder = proto::LockFile::HolderOf(LockIn(path)).value_or(proto::LockHolder());
      return Error(Code::kUnavailable,
                   fmt::format("{} is held by process {}: talk to that daemon, or use another directory", LockIn(path),
                               holder.pid));
    }
  }
  dir.RemoveLeftovers();
  return dir;
}

void StoreDir::RemoveLeftovers() {
  const Result<std::vector<std::string>> names = filesystem_.List(path_);
  if (!names) return;
  for (const std::string& name : *names) {
    if (name.ends_with(".tmp")) Ignore(filesystem_.Remove(path_ + "/" + name), "it is tried again next time");
  }
}

Status StoreDir::CheckVersion() {
  const std::string file = path_ + "/VERSION";
  const Result<Buffer> read = filesystem_.Read(file, kSmallFileBytesMax);
  if (!read) {
    if (read.error().code() != Code::kNotFound) return read.error();
    if (!filesystem_.Exists(database())) return {};
    return Error(Code::kCorrupt, file + " is missing, so the database cannot be trusted");
  }
  std::string_view text = AsText(*read);
  uint32_t version = 0;
  bool good = text.starts_with(kVersionPrefix) && text.ends_with('\n');
  if (good) {
    text.remove_prefix(kVersionPrefix.size());
    text.remove_suffix(1);
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), version);
    good = code == std::errc() && end == text.data() + text.size();
  }
  if (!good) return Error(Code::kCorrupt, file + " does not hold a version");
  if (version != kStoreVersion) {
    return Error(Code::kIncompatible,
                 fmt::format("{} says version {}, this build reads {}", file, version, kStoreVersion));
  }
  return {};
}

Status StoreDir::WriteVersion() {
  const std::string text = fmt::format("{}{}\n", kVersionPrefix, kStoreVersion);
  return filesystem_.WriteAtomic(path_ + "/VERSION", AsBytes(text));
}

Status StoreDir::WriteDamageNote(const std::string& reason) {
  return filesystem_.WriteAtomic(path_ + "/DAMAGED", AsBytes(reason));
}

Status StoreDir::CheckDamageNote() {
  const Result<Buffer> note = filesystem_.Read(path_ + "/DAMAGED", kSmallFileBytesMax);
  if (note) return Error(Code::kCorrupt, std::string(AsText(*note)));
  if (note.error().code() == Code::kNotFound) return {};
  return note.error();
}

Result<std::string> StoreDir::MoveAside(const Error& reason, const Clock& clock, size_t asides_max) {
  const std::string asides = path_ + "/aside";
  TRY(filesystem_.MakeDirs(asides));
  TRY_ASSIGN(std::vector<std::string> names, filesystem_.List(asides));
  const std::string place = asides + "/" + NextAside(names, clock.now_s());
  TRY(filesystem_.MakeDirs(place));
  const std::string text = reason.ToText() + "\n";
  TRY(filesystem_.WriteAtomic(place + "/REASON", AsBytes(text)));
  if (filesystem_.Exists(database())) TRY(filesystem_.Rename(database(), place + "/db"));
  for (const char* name : {"/VERSION", "/DAMAGED"}) {
    if (filesystem_.Exists(path_ + name)) TRY(filesystem_.Rename(path_ + name, place + name));
  }
  TRY_ASSIGN(names, filesystem_.List(asides));
  for (size_t i = 0; i + asides_max < names.size(); ++i) {
    Ignore(filesystem_.Remove(asides + "/" + names[i]), "it is tried again next time");
  }
  return place;
}

}  // namespace ingot::cache
