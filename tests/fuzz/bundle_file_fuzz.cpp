// SPDX-License-Identifier: Apache-2.0
// Bundles from strangers: as they come, and with checksums that fit the headers as they are.
#include "daemon/admin/bundle_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "base/digest.h"
#include "base/temp_dir.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/daemon/bundle_at.h"

namespace ingot::fuzz {
namespace {

using daemon::BundleKind;
using daemon::BundleLimits;
using daemon::BundleMember;
using daemon::BundleReader;
using daemon::BundleWriter;
using daemon::ReaderAt;
using daemon::WriterAt;

constexpr size_t kBlock = 512, kChecksum = 148, kChecksumBytes = 8;
constexpr BundleLimits kLimits{
    .bytes_max = 1 << 20, .members_max = 64, .record_bytes_max = 1 << 16, .blob_bytes_max = 1 << 18};

const TempDir& Folder() {
  static const TempDir folder;
  return folder;
}

void CheckMember(const BundleReader& reader, const BundleMember& member) {
  Ensure(member.at + member.bytes <= reader.bytes(), "a member lies in the file");
  Buffer bytes(member.bytes);
  Ensure(reader.Read(member, bytes.data()).has_value() && DigestOf(bytes) == member.content,
         "it has the bytes of its list");
}

void Check(Bytes bytes) {
  const std::string path = Folder() / "read.tar";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  const auto reader = ReaderAt(path, kLimits);
  if (!reader) return;
  accepted = true;
  Ensure(reader->entries().size() + reader->graphs().size() + reader->blobs() <= kLimits.members_max,
         "no more members than may be");
  for (const BundleMember& member : reader->entries()) CheckMember(*reader, member);
  for (const BundleMember& member : reader->graphs()) CheckMember(*reader, member);
}

/// `bytes`, each block that could be a header with the sum that fits it.
Buffer Summed(Bytes bytes) {
  Buffer summed(bytes.begin(), bytes.end());
  for (size_t at = 0; at + kBlock <= summed.size(); at += kBlock) {
    if (!std::equal(summed.begin() + static_cast<long>(at) + 257, summed.begin() + static_cast<long>(at) + 262,
                    "ustar"))
      continue;
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += i >= kChecksum && i < kChecksum + kChecksumBytes ? ' ' : summed[at + i];
    std::array<char, kChecksumBytes + 1> text{};
    std::snprintf(text.data(), text.size(), "%06o", sum & 0777777U);
    text[7] = ' ';
    std::copy_n(text.begin(), kChecksumBytes, summed.begin() + static_cast<long>(at + kChecksum));
  }
  return summed;
}

}  // namespace

std::vector<Buffer> Seeds() {
  const std::string path = Folder() / "seed.tar";
  auto writer = WriterAt(path, kLimits);
  Ensure(writer.has_value(), "a bundle can be made");
  const Buffer record(700, 3), blob(1500, 9);
  Ensure(writer->Add(BundleKind::kEntry, {1, 2}, record).has_value() &&
             writer->Add(BundleKind::kGraph, {3, 4}, record).has_value() &&
             writer->Add(BundleKind::kBlob, DigestOf(blob), blob).has_value() && writer->Finish().has_value(),
         "a bundle can be written");
  std::ifstream file(path, std::ios::binary);
  return {Buffer(std::istreambuf_iterator<char>(file), {})};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  fuzz::Check({data, size});
  fuzz::Check(fuzz::Summed({data, size}));
  return 0;
}
