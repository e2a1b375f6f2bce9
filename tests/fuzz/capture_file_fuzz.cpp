// SPDX-License-Identifier: Apache-2.0
// Files of recordings for `ingot warm`: as they come, and with the digest that fits what they say.
#include "proto/capture_file.h"

#include <cstring>
#include <memory>

#include "base/digest.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

void Check(Bytes bytes) {
  const auto captures = proto::OpenCaptures(bytes);
  if (!captures) {
    const Code code = captures.error().code();
    Ensure(code == Code::kCorrupt || code == Code::kIncompatible, captures.error().ToText());
    return;
  }
  accepted = true;
  const Buffer packed = proto::PackCaptures(*captures);
  const auto again = proto::OpenCaptures(packed);
  Ensure(again && again->size() == captures->size(), "what opens can be written and opened again");
  Ensure(AsText(proto::PackCaptures(*again)) == AsText(packed), "it is written as it was");
}

/// `bytes` with the digest that fits them.
Buffer Sealed(Bytes bytes) {
  constexpr size_t kDigest = 48, kHeader = 64;
  Buffer sealed(bytes.begin(), bytes.end());
  if (bytes.size() < kHeader) return sealed;
  Hasher hasher;
  hasher.AddField(bytes.first(kDigest));
  hasher.AddField(bytes.subspan(kHeader));
  const Digest digest = hasher.Finish();
  std::memcpy(sealed.data() + kDigest, &digest.low, sizeof digest.low);
  std::memcpy(sealed.data() + kDigest + sizeof digest.low, &digest.high, sizeof digest.high);
  return sealed;
}

}  // namespace

std::vector<Buffer> Seeds() {
  proto::CompileT one;
  one.key = std::make_unique<proto::EntryKeyT>();
  one.recording = Buffer(40, 7);
  std::vector<proto::CompileT> captures;
  captures.push_back(one);
  captures.push_back(std::move(one));
  return {proto::PackCaptures({}), proto::PackCaptures(captures)};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ingot::fuzz::Check({data, size});
  ingot::fuzz::Check(ingot::fuzz::Sealed({data, size}));
  return 0;
}
