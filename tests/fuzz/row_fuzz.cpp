// SPDX-License-Identifier: Apache-2.0
// Rows of a store: commit records and facts, under the digest they come with and a right one.
#include "cache/store/row.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

constexpr size_t kFactsRowBytes = 62;

void CheckCommit(Bytes bytes) {
  const auto row = cache::DecodeCommitRow(bytes);
  if (!row) return;
  accepted = true;
  const Bytes value = bytes.subspan(cache::kCommitRowBytes);
  Ensure(row->chunks != 0 || row->bytes == value.size(), "the bytes that follow are the value");
  Ensure(AsText(EncodeCommitRow(*row, value)) == AsText(bytes), "a commit record encodes to its bytes");
}

void CheckFacts(Bytes bytes) {
  const auto row = cache::DecodeFactsRow(bytes);
  if (!row) return;
  accepted = true;
  Ensure(AsText(EncodeFactsRow(*row)) == AsText(bytes), "a facts record encodes to its bytes");
}

/// `bytes` with the digest that fits what lies before `at`.
Buffer Sealed(Bytes bytes, size_t at) {
  Buffer sealed(bytes.begin(), bytes.end());
  const uint64_t digest = DigestOf(bytes.first(at)).low;
  std::memcpy(sealed.data() + at, &digest, sizeof digest);
  return sealed;
}

}  // namespace

std::vector<Buffer> Seeds() {
  return {cache::EncodeCommitRow({5, DigestOf("value"), 42, 0}, AsBytes("value")),
          cache::EncodeCommitRow({1 << 20, {1, 2}, 42, 3}, {}),
          cache::EncodeFactsRow({{5, 100, 200, 3, 1.5, true}, 42, 7})};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const Bytes bytes{data, size};
  fuzz::CheckCommit(bytes);
  fuzz::CheckFacts(bytes);
  if (size >= cache::kCommitRowBytes) fuzz::CheckCommit(fuzz::Sealed(bytes, cache::kCommitRowBytes - 8));
  if (size >= fuzz::kFactsRowBytes) {
    const Bytes facts = bytes.first(fuzz::kFactsRowBytes);
    fuzz::CheckFacts(fuzz::Sealed(facts, fuzz::kFactsRowBytes - 8));
  }
  const auto key = cache::DigestFromFactsKey(bytes);
  fuzz::Ensure(!key || cache::FactsKey(static_cast<cache::Table>(data[0]), *key) == AsText(bytes),
               "a facts key is its table and digest");
  return 0;
}
