// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "proto/frame.h"

namespace ingot::daemon {

/// The file of a bundle (docs/format/bundle.md): a tar archive (POSIX ustar) of records and blobs that ends in a list
/// of all of them. This is the container alone; what may be taken out of one is daemon/admin/bundle.h's matter.
enum class BundleKind : uint8_t { kEntry, kBlob, kGraph };
inline constexpr size_t kBundleKinds = 3;

struct BundleMember {
  BundleKind kind = BundleKind::kEntry;
  Digest name;      ///< Of an entry and a graph its key's, of a blob its bytes'.
  uint64_t bytes = 0;
  Digest content;   ///< Of the bytes.
  uint64_t at = 0;  ///< Where the bytes begin in the file.
  /// "entries/0123...", as tar shows it.
  std::string Path() const;
};

/// What one bundle may have. 0: no limit.
struct BundleLimits {
  uint64_t bytes_max = 0;
  uint64_t members_max = 0;
  uint64_t record_bytes_max = 0;
  uint64_t blob_bytes_max = 0;
};

/// Writes a bundle into a file that somebody else has opened, and gives a name when it is whole. Thread-compatible.
class BundleWriter {
 public:
  /// kInvalid: it is no empty file that can be written to. Else as base/filesystem.h: kUnavailable, kExhausted.
  static Result<BundleWriter> Create(UniqueFd file, const BundleLimits& limits);

  bool Has(BundleKind kind, const Digest& name) const;
  /// kInvalid: a second one of that name; kExhausted: a limit, the disk.
  Status Add(BundleKind kind, const Digest& name, Bytes bytes);
  /// List, end, sync.
  Status Finish();

  uint64_t bytes() const { return at_; }
  size_t members() const { return members_.size(); }

 private:
  BundleWriter(UniqueFd fd, const BundleLimits& limits) : fd_(std::move(fd)), limits_(limits) {}
  Status AddFile(const std::string& name, Bytes bytes);
  Status Write(Bytes bytes);

  UniqueFd fd_;
  BundleLimits limits_;
  uint64_t at_ = 0;
  std::vector<BundleMember> members_;
  std::unordered_set<Digest> names_[kBundleKinds];
};

/// A bundle that has been read through once: every byte of it is as its list says. Keeps 72 bytes a member in memory,
/// never the members. Thread-compatible.
class BundleReader {
 public:
  /// Called now and then with the bytes read so far and those of the file; an error ends the reading.
  using Progress = std::function<Status(uint64_t done, uint64_t all)>;
  /// Reads all of the file. kInvalid: it is no file, or not open for reading; kIncompatible: of another version;
  /// kExhausted: over a limit; kCorrupt names the member that is not as it was written, or missing.
  static Result<BundleReader> Open(UniqueFd file, const BundleLimits& limits, const Progress& progress = {});

  const std::vector<BundleMember>& entries() const { return entries_; }
  const std::vector<BundleMember>& graphs() const { return graphs_; }
  /// nullptr: it has none of that name.
  const BundleMember* FindBlob(const Digest& name) const;
  size_t blobs() const { return blobs_.size(); }
  uint64_t bytes() const { return size_; }
  /// Fills `into`, which has room for all of the member. kCorrupt: the file is another by now.
  Status Read(const BundleMember& member, uint8_t* into) const;

 private:
  BundleReader(UniqueFd fd, uint64_t size) : fd_(std::move(fd)), size_(size) {}
  struct Header;
  Status ReadAt(uint64_t at, uint8_t* into, uint64_t bytes) const;
  Result<Header> ReadHeader(uint64_t at) const;
  Status CheckAll(const BundleLimits& limits, const Progress& progress);
  /// The first member says what the file is, and of which version.
  Status CheckFirst(const Header& header);
  /// What is behind a header, without its digest.
  Result<BundleMember> MemberOf(const Header& header, const BundleLimits& limits) const;
  /// The digest of a member's bytes, which are read through `piece`.
  Result<Digest> ContentOf(const BundleMember& member, Buffer& piece, const Progress& progress) const;
  /// The list of members against what was met.
  Status CheckList(const Header& header, const std::vector<BundleMember>& met) const;
  Status CheckEnd(uint64_t at) const;

  UniqueFd fd_;
  uint64_t size_ = 0;
  std::string first_;  ///< What its first member says: its version.
  std::vector<BundleMember> entries_, graphs_;
  std::unordered_map<Digest, BundleMember> blobs_;
};

}  // namespace ingot::daemon
