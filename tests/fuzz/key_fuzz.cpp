// SPDX-License-Identifier: Apache-2.0
// Bytes of a key, under the digest they come with and under a right one.
#include "cache/store/key.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using cache::DecodeKey;
using cache::EncodeKey;
using cache::Key;

Key SmallKey() {
  return {{{"function", {{"name", {1, 2}, "model.decode"}, {"code", {3, 4}, ""}}},
           {"module_state", {{"layers.0.act", {5, 6}, "SiLU"}, {"layers.0.act", {7, 8}, ""}}},
           {"ranks", {}}}};
}

void Check(Bytes bytes) {
  const Result<Key> key = DecodeKey(bytes);
  if (!key) return;
  accepted = true;
  const Buffer encoded = EncodeKey(*key);
  Ensure(AsText(encoded) == AsText(bytes), "what decodes is canonical");
  const Key other = SmallKey();
  const bool equal = key->ToDigest() == other.ToDigest();
  const auto difference = FirstDifference(other, *key);
  Ensure(equal == !difference, "keys of other digests differ in something");
  Ensure(equal == (Distance(other, *key) == 0), "only equal keys have no distance");
  Ensure(Distance(other, *key) == Distance(*key, other), "distance is the same both ways");
  Ensure(!difference || !difference->ToText().empty(), "a difference has words");
}

}  // namespace

std::vector<Buffer> Seeds() { return {EncodeKey(Key()), EncodeKey(SmallKey())}; }

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  fuzz::Check({data, size});
  if (size < 16) return 0;
  Buffer sealed(data, data + size - 16);
  const Digest digest = DigestOf(sealed);
  AppendLittle(sealed, digest.low);
  AppendLittle(sealed, digest.high);
  fuzz::Check(sealed);
  return 0;
}
