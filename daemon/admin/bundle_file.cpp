// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/bundle_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/filesystem.h"

namespace ingot::daemon {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kPiece = 1u << 20;
/// Larger than any file that a header of this format can name.
constexpr uint64_t kFileBytesMax = 1ull << 33;
/// tar programs round a file up with zeros.
constexpr uint64_t kTailMax = 1u << 20;
constexpr std::string_view kFirstName = "ingot-bundle";
constexpr std::string_view kFirstWord = "ingot-bundle ";
constexpr std::string_view kFirstText = "ingot-bundle 2\n";
/// Before there were graphs.
constexpr std::string_view kFirstTextOfOne = "ingot-bundle 1\n";
constexpr std::string_view kListName = "manifest";
constexpr std::string_view kFolders[kBundleKinds] = {"entries/", "blobs/", "graphs/"};
constexpr std::string_view kWords[kBundleKinds] = {"entry", "blob", "graph"};

uint64_t Padded(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

using Block = std::array<uint8_t, kBlock>;

/// A field of a header of ustar: where it is, and its size.
struct Field {
  size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12}, kTime{136, 12},
    kChecksum{148, 8}, kType{156, 1}, kMagic{257, 8}, kPrefix{345, 155};
constexpr std::string_view kMagicBytes{"ustar\00000", 8};

std::string_view In(const Block& block, Field field) {
  return {reinterpret_cast<const char*>(block.data()) + field.at, field.size};
}

void PutOctal(Block& block, Field field, uint64_t value) {
  const std::string digits = fmt::format("{:0{}o}", value, field.size - 1);
  std::ranges::copy(digits, block.begin() + static_cast<long>(field.at));
}

/// Octal digits, then nothing but NUL and spaces.
std::optional<uint64_t> Octal(std::string_view text) {
  uint64_t value = 0;
  size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '7'; ++i) {
    value = value * 8 + static_cast<uint64_t>(text[i] - '0');
  }
  if (i == 0 || text.find_first_not_of(std::string_view("\0 ", 2), i) != text.npos) return std::nullopt;
  return value;
}

/// The sum of all bytes, those of the sum itself as spaces.
uint64_t ChecksumOf(const Block& block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += own ? ' ' : block[i];
  }
  return sum;
}

/// As all programs write it.
std::string ChecksumText(const Block& block) {
  return fmt::format("{:06o}", ChecksumOf(block)) + std::string("\0 ", 2);
}

/// Names come from somebody else's file: they are shown, and never used as paths.
std::string Shown(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, kName.size)) {
    if (c >= ' ' && c < 127 && c != '\'') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    }
  }
  return "'" + out + "'";
}

std::string ListLine(const BundleMember& member) {
  return fmt::format("{} {} {} {}\n", kWords[static_cast<size_t>(member.kind)], member.name.ToHex(), member.bytes,
                     member.content.ToHex());
}

std::string ListEnd(size_t members) { return fmt::format("end {}\n", members); }

Error Bad(std::string text) { return Error(Code::kCorrupt, std::move(text)); }

Error OverLimit(const std::string& what, uint64_t found, uint64_t limit, const char* field) {
  return Error(Code::kExhausted, fmt::format("{}: {}, the limit is {} ({})", what, found, limit, field));
}

}  // namespace

std::string BundleMember::Path() const { return std::string(kFolders[static_cast<size_t>(kind)]) + name.ToHex(); }

Result<BundleWriter> BundleWriter::Create(UniqueFd file, const BundleLimits& limits) {
  struct stat found{};
  if (fstat(file.get(), &found) != 0) return ErrorFromErrno(errno, "stat the bundle");
  const int mode = fcntl(file.get(), F_GETFL);
  if (!S_ISREG(found.st_mode) || found.st_size != 0 || mode < 0 || (mode & O_ACCMODE) == O_RDONLY) {
    return Error(Code::kInvalid, "a bundle is written into an empty file that is open for writing");
  }
  BundleWriter writer(std::move(file), limits);
  TRY(writer.AddFile(std::string(kFirstName), AsBytes(kFirstText)));
  return writer;
}

Status BundleWriter::Write(Bytes bytes) {
  if (limits_.bytes_max != 0 && at_ + bytes.size() > limits_.bytes_max) {
    return OverLimit("the bundle: bytes", at_ + bytes.size(), limits_.bytes_max, "bundle_bytes_max");
  }
  while (!bytes.empty()) {
    const ssize_t n = write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrorFromErrno(errno, "write the bundle");
    at_ += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status BundleWriter::AddFile(const std::string& name, Bytes bytes) {
  if (bytes.size() >= kFileBytesMax) {
    return OverLimit(name + ": bytes", bytes.size(), kFileBytesMax - 1, "what tar's format holds");
  }
  Block header{};
  std::ranges::copy(name, header.begin());
  PutOctal(header, kMode, 0644);
  PutOctal(header, kUser, 0);
  PutOctal(header, kGroup, 0);
  PutOctal(header, kSize, bytes.size());
  // No time: the same records and blobs are the same file.
  PutOctal(header, kTime, 0);
  header[kType.at] = '0';
  std::ranges::copy(kMagicBytes, header.begin() + kMagic.at);
  std::ranges::copy(ChecksumText(header), header.begin() + kChecksum.at);
  TRY(Write(header));
  TRY(Write(bytes));
  const Buffer padding(Padded(bytes.size()) - bytes.size());
  return Write(padding);
}

bool BundleWriter::Has(BundleKind kind, const Digest& name) const {
  return names_[static_cast<size_t>(kind)].contains(name);
}

Status BundleWriter::Add(BundleKind kind, const Digest& name, Bytes bytes) {
  BundleMember member{.kind = kind, .name = name, .bytes = bytes.size(), .content = DigestOf(bytes)};
  if (limits_.members_max != 0 && members_.size() >= limits_.members_max) {
    return OverLimit("the bundle: members", members_.size() + 1, limits_.members_max, "bundle_members_max");
  }
  if (!names_[static_cast<size_t>(kind)].insert(name).second) {
    return Error(Code::kInvalid, member.Path() + " is in the bundle already");
  }
  TRY(AddFile(member.Path(), bytes));
  members_.push_back(member);
  return {};
}

Status BundleWriter::Finish() {
  std::string list(kFirstText);
  for (const BundleMember& member : members_) list += ListLine(member);
  list += ListEnd(members_.size());
  TRY(AddFile(std::string(kListName), AsBytes(list)));
  TRY(Write(Buffer(2 * kBlock)));
  if (fsync(fd_.get()) != 0) return ErrorFromErrno(errno, "sync the bundle");
  return {};
}

struct BundleReader::Header {
  std::string name;
  uint64_t bytes = 0;
  uint64_t at = 0;  ///< Of the bytes.
  bool is_end = false;
};

Status BundleReader::ReadAt(uint64_t at, uint8_t* into, uint64_t bytes) const {
  while (bytes != 0) {
    const ssize_t n = pread(fd_.get(), into, std::min<uint64_t>(bytes, kPiece), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrorFromErrno(errno, "read the bundle");
    if (n == 0) return Bad(fmt::format("the bundle ends at byte {}, in the middle", at));
    at += static_cast<uint64_t>(n);
    into += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return {};
}

Result<BundleReader::Header> BundleReader::ReadHeader(uint64_t at) const {
  Block block;
  if (at > size_ || size_ - at < kBlock) return Bad(fmt::format("the bundle ends at byte {}, before its list", size_));
  TRY(ReadAt(at, block.data(), kBlock));
  Header header;
  if (std::ranges::all_of(block, [](uint8_t byte) { return byte == 0; })) {
    header.is_end = true;
    return header;
  }
  const auto damaged = [&](const char* what) {
    return Bad(fmt::format("the bundle: the header at byte {} {}", at, what));
  };
  if (In(block, kChecksum) != ChecksumText(block)) return damaged("is not as it was written, or this is no tar file");
  if (In(block, kMagic) != kMagicBytes) return damaged("is of no ustar file");
  const std::string_view name = In(block, kName);
  header.name = name.substr(0, name.find('\0'));
  if (block[kType.at] != '0' && block[kType.at] != 0) {
    return Bad(fmt::format("the bundle: {} is no plain file, and a bundle holds nothing else", Shown(header.name)));
  }
  if (block[kPrefix.at] != 0) return Bad(fmt::format("the bundle: {} has a prefix", Shown(header.name)));
  const std::optional<uint64_t> bytes = Octal(In(block, kSize));
  if (!bytes) return Bad(fmt::format("the bundle: {} has a size that cannot be read", Shown(header.name)));
  header.bytes = *bytes;
  header.at = at + kBlock;
  if (size_ - header.at < Padded(header.bytes)) {
    return Bad(fmt::format("the bundle: {} says it has {} bytes, and the file ends {} bytes on", Shown(header.name),
                           header.bytes, size_ - header.at));
  }
  return header;
}

Status BundleReader::CheckFirst(const Header& header) {
  std::string text(std::min<uint64_t>(header.bytes, kFirstText.size() + 16), '\0');
  TRY(ReadAt(header.at, reinterpret_cast<uint8_t*>(text.data()), text.size()));
  if (header.name != kFirstName || !text.starts_with(kFirstWord)) {
    return Bad(fmt::format("this is no bundle: it begins with {}", Shown(header.name)));
  }
  if (text != kFirstText && text != kFirstTextOfOne) {
    return Error(Code::kIncompatible, fmt::format("this is a bundle of another version ({}), this build reads 1 and 2",
                                                  Shown(text.substr(kFirstWord.size()))));
  }
  first_ = text;
  return {};
}

Result<BundleMember> BundleReader::MemberOf(const Header& header, const BundleLimits& limits) const {
  BundleMember member{.bytes = header.bytes, .at = header.at};
  bool is_known = false;
  for (const BundleKind kind : {BundleKind::kEntry, BundleKind::kBlob, BundleKind::kGraph}) {
    if (kind == BundleKind::kGraph && first_ == kFirstTextOfOne) continue;
    const std::string_view folder = kFolders[static_cast<size_t>(kind)];
    if (!header.name.starts_with(folder)) continue;
    const Result<Digest> name = Digest::FromHex(std::string_view(header.name).substr(folder.size()));
    if (!name || folder.size() + name->ToHex().size() != header.name.size()) continue;
    member.kind = kind;
    member.name = *name;
    is_known = member.Path() == header.name;
  }
  if (!is_known) {
    return Bad(fmt::format("the bundle: {} is the name of nothing that a bundle holds", Shown(header.name)));
  }
  const bool is_blob = member.kind == BundleKind::kBlob;
  const uint64_t bytes_max = is_blob ? limits.blob_bytes_max : limits.record_bytes_max;
  if (bytes_max != 0 && member.bytes > bytes_max) {
    return OverLimit(fmt::format("the bundle: bytes of {}", member.Path()), member.bytes, bytes_max,
                     is_blob ? "store_value_bytes_max" : "what a record may have");
  }
  return member;
}

Result<Digest> BundleReader::ContentOf(const BundleMember& member, Buffer& piece, const Progress& progress) const {
  Hasher hasher;
  for (uint64_t done = 0; done < member.bytes;) {
    const uint64_t part = std::min<uint64_t>(member.bytes - done, piece.size());
    TRY(ReadAt(member.at + done, piece.data(), part));
    hasher.Add(Bytes(piece.data(), part));
    done += part;
    if (progress) TRY(progress(member.at + done, size_));
  }
  return hasher.Finish();
}

Status BundleReader::CheckAll(const BundleLimits& limits, const Progress& progress) {
  if (limits.bytes_max != 0 && size_ > limits.bytes_max) {
    return OverLimit("the bundle: bytes", size_, limits.bytes_max, "bundle_bytes_max");
  }
  std::vector<BundleMember> met;
  std::unordered_set<Digest> names[kBundleKinds];
  Buffer piece(std::clamp<uint64_t>(size_, kBlock, kPiece));
  uint64_t at = 0;
  for (size_t i = 0;; ++i) {
    TRY_ASSIGN(const Header header, ReadHeader(at));
    if (header.is_end) return Bad(fmt::format("the bundle ends at byte {} without a list", at));
    at = header.at + Padded(header.bytes);
    const uint64_t padding = at - header.at - header.bytes;
    TRY(ReadAt(header.at + header.bytes, piece.data(), padding));
    if (std::any_of(piece.begin(), piece.begin() + static_cast<long>(padding), [](uint8_t b) { return b != 0; })) {
      return Bad(fmt::format("the bundle: there are bytes behind {} that belong to nothing", Shown(header.name)));
    }
    if (i == 0) {
      TRY(CheckFirst(header));
      continue;
    }
    if (header.name == kListName) {
      TRY(CheckList(header, met));
      TRY(CheckEnd(at));
      break;
    }
    TRY_ASSIGN(BundleMember member, MemberOf(header, limits));
    if (limits.members_max != 0 && met.size() >= limits.members_max) {
      return OverLimit("the bundle: members", met.size() + 1, limits.members_max, "bundle_members_max");
    }
    if (!names[static_cast<size_t>(member.kind)].insert(member.name).second) {
      return Bad(fmt::format("the bundle: {} is in it twice", member.Path()));
    }
    TRY_ASSIGN(member.content, ContentOf(member, piece, progress));
    if (member.kind == BundleKind::kBlob && member.content != member.name) {
      return Bad(fmt::format("the bundle: {} has other bytes: theirs is the digest {}", member.Path(),
                             member.content.ToHex()));
    }
    met.push_back(member);
  }
  for (const BundleMember& member : met) {
    switch (member.kind) {
      case BundleKind::kEntry: entries_.push_back(member); break;
      case BundleKind::kGraph: graphs_.push_back(member); break;
      case BundleKind::kBlob: blobs_.emplace(member.name, member); break;
    }
  }
  return {};
}

Status BundleReader::CheckList(const Header& header, const std::vector<BundleMember>& met) const {
  uint64_t at = header.at;
  const uint64_t end = header.at + header.bytes;
  std::string found;
  const auto expect = [&](const std::string& line, const std::string& what) -> Status {
    found.resize(std::min<uint64_t>(line.size(), end - at));
    TRY(ReadAt(at, reinterpret_cast<uint8_t*>(found.data()), found.size()));
    at += found.size();
    if (found == line) return {};
    return Bad(fmt::format("the bundle: {} is not as the list of the bundle has it, which says {}", what,
                           Shown(std::string_view(found).substr(0, found.find('\n')))));
  };
  TRY(expect(first_, "its version"));
  for (const BundleMember& member : met) TRY(expect(ListLine(member), member.Path()));
  TRY(expect(ListEnd(met.size()), "what follows the last member"));
  if (at != end) return Bad("the bundle: its list goes on after its end");
  return {};
}

Status BundleReader::CheckEnd(uint64_t at) const {
  const uint64_t tail = size_ - at;
  if (tail < 2 * kBlock || tail > kTailMax || tail % kBlock != 0) {
    return Bad(fmt::format("the bundle: {} bytes follow its list, and not the end of a tar file", tail));
  }
  Buffer rest(tail);
  TRY(ReadAt(at, rest.data(), tail));
  if (std::ranges::any_of(rest, [](uint8_t byte) { return byte != 0; })) {
    return Bad("the bundle: there is something behind its end");
  }
  return {};
}

Result<BundleReader> BundleReader::Open(UniqueFd file, const BundleLimits& limits, const Progress& progress) {
  struct stat found{};
  if (fstat(file.get(), &found) != 0) return ErrorFromErrno(errno, "stat the bundle");
  const int mode = fcntl(file.get(), F_GETFL);
  if (!S_ISREG(found.st_mode) || mode < 0 || (mode & O_ACCMODE) == O_WRONLY) {
    return Error(Code::kInvalid, "this is no file that can be read twice, as a bundle is: to check it and to take it");
  }
  BundleReader reader(std::move(file), static_cast<uint64_t>(found.st_size));
  TRY(reader.CheckAll(limits, progress));
  return reader;
}

const BundleMember* BundleReader::FindBlob(const Digest& name) const {
  const auto at = blobs_.find(name);
  return at == blobs_.end() ? nullptr : &at->second;
}

Status BundleReader::Read(const BundleMember& member, uint8_t* into) const {
  TRY(ReadAt(member.at, into, member.bytes));
  if (DigestOf(Bytes(into, member.bytes)) == member.content) return {};
  return Bad(fmt::format("the bundle: {} has changed while it was read", member.Path()));
}

}  // namespace ingot::daemon
