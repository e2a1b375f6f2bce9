// SPDX-License-Identifier: Apache-2.0
#include "proto/capture_file.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "base/digest.h"
#include "proto/endpoint.h"
#include "proto/message.h"

namespace ingot::proto {
namespace {

constexpr std::string_view kCaptureMagic = "INGOTCAP";
constexpr uint32_t kFormatVersion = 1;

/// Little-endian, before the messages.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t count;
  char build[32];        ///< BuildId() of the writer, padded with zeros: schemas are not versioned apart
  uint64_t digest_low;   ///< of what is before it and of everything behind the header
  uint64_t digest_high;
};
static_assert(sizeof(Header) == 64);

Digest DigestOfFile(const Header& header, Bytes body) {
  Hasher hasher;
  hasher.AddField(Bytes(reinterpret_cast<const uint8_t*>(&header), offsetof(Header, digest_low)));
  hasher.AddField(body);
  return hasher.Finish();
}

/// Each message: its size in bytes as u64, the bytes, zeros up to a multiple of 8.
constexpr size_t Padded(size_t size) { return (size + 7) / 8 * 8; }

Error Damage(const std::string& what) {
  return Error(Code::kCorrupt, fmt::format("capture file: {}; save it again", what));
}

}  // namespace

Buffer PackCaptures(const std::vector<CompileT>& captures) {
  Buffer body;
  for (const CompileT& capture : captures) {
    const Buffer message = PackMessage<Compile>(capture);
    AppendLittle(body, static_cast<uint64_t>(message.size()));
    body.insert(body.end(), message.begin(), message.end());
    body.resize(Padded(body.size()));
  }
  Header header{};
  std::memcpy(header.magic, kCaptureMagic.data(), kCaptureMagic.size());
  header.version = kFormatVersion;
  header.count = static_cast<uint32_t>(captures.size());
  const std::string build(BuildId());
  std::memcpy(header.build, build.data(), std::min(build.size(), sizeof header.build));
  const Digest digest = DigestOfFile(header, body);
  header.digest_low = digest.low;
  header.digest_high = digest.high;
  Buffer file(sizeof header + body.size());
  std::memcpy(file.data(), &header, sizeof header);
  if (!body.empty()) std::memcpy(file.data() + sizeof header, body.data(), body.size());
  return file;
}

Result<std::vector<CompileT>> OpenCaptures(Bytes file) {
  Header header;
  if (file.size() < sizeof header) return Damage("it ends inside its header");
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, kCaptureMagic.data(), kCaptureMagic.size()) != 0) return Damage("it is none");
  if (header.version != kFormatVersion) {
    return Error(Code::kIncompatible,
                 fmt::format("capture file: format version {}, this build reads {}", header.version, kFormatVersion));
  }
  const std::string build(header.build, strnlen(header.build, sizeof header.build));
  if (build != std::string(BuildId()).substr(0, sizeof header.build)) {
    return Error(
        Code::kIncompatible,
        fmt::format("capture file: saved by build {}, this is {}; save it again with this build", build, BuildId()));
  }
  Bytes body = file.subspan(sizeof header);
  if (DigestOfFile(header, body) != Digest{header.digest_low, header.digest_high}) {
    return Damage("its bytes do not match their digest");
  }
  std::vector<CompileT> captures;
  for (uint32_t i = 0; i < header.count; ++i) {
    uint64_t size = 0;
    if (body.size() < sizeof size) return Damage("it ends before its last capture");
    std::memcpy(&size, body.data(), sizeof size);
    body = body.subspan(sizeof size);
    if (size > body.size()) return Damage("a capture is longer than the file");
    // Messages are read in place, which needs their alignment.
    const Buffer message(body.begin(), body.begin() + static_cast<long>(size));
    const Compile* table = ReadMessage<Compile>(message);
    if (table == nullptr) return Damage(fmt::format("capture {} does not verify", i));
    table->UnPackTo(&captures.emplace_back());
    body = body.subspan(std::min(body.size(), Padded(sizeof size + size) - sizeof size));
  }
  if (!body.empty()) return Damage("bytes are left behind its last capture");
  return captures;
}

}  // namespace ingot::proto
