// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/filesystem.h"
#include "base/result.h"
#include "proto/lock_file.h"

namespace ingot::cache {

/// Version of what is inside a store directory (docs/format/store.md).
inline constexpr uint32_t kStoreVersion = 2;

/// The directory of a store: lock, version file, database, and databases moved aside.
///
/// Holds the lock for as long as it lives, or leaves that to the caller, so one process at a time
/// uses a store. The lock is
/// taken before anything else is looked at: a store of a newer version that a newer daemon uses is
/// never moved. Thread-compatible.
class StoreDir {
 public:
  /// Creates the directory (mode 0700), takes the lock unless the caller has it (`held`), and removes
  /// temporary files that a crash has left. kUnavailable: held by a live process (named), no
  /// permission, read-only, not private.
  static Result<StoreDir> Open(const std::string& path, Filesystem& filesystem, const proto::LockFile* held = nullptr);

  static std::string LockIn(const std::string& path) { return path + "/LOCK"; }
  static std::string DatabaseIn(const std::string& path) { return path + "/db"; }
  std::string database() const { return DatabaseIn(path_); }
  /// Success when the version file is this build's or nothing is stored yet; else why the
  /// database must not be used: kIncompatible, kCorrupt, or an Error of the disk.
  Status CheckVersion();
  /// Marks the database as this build's.
  Status WriteVersion();
  /// Leaves a note for the next opening, should there be one before MoveAside, that the database must be moved.
  Status WriteDamageNote(const std::string& reason);
  /// kCorrupt with the reason when there is such a note.
  Status CheckDamageNote();
  /// Moves the database to `aside/<time>-<n>/` with its reason, and removes all but the newest
  /// `asides_max`. Returns the new place.
  Result<std::string> MoveAside(const Error& reason, const Clock& clock, size_t asides_max);

 private:
  StoreDir(std::string path, Filesystem& filesystem) : path_(std::move(path)), filesystem_(filesystem) {}
  void RemoveLeftovers();

  std::string path_;
  Filesystem& filesystem_;
  std::optional<proto::LockFile> lock_;
};

}  // namespace ingot::cache
