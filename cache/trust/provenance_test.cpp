// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cache/fake_provenance.h"

namespace ingot::cache {
namespace {

using testing::HasSubstr;

/// The whole format as bytes that must never change.
constexpr std::string_view kGolden =
    "494e475001000000010010000000010000000000000002000000000000000200100000000300000000000000040000000000"
    "0000030020000000cb7bf562420b82e97ee182f019c22e010e50b29334c036a8c23b8d7e617ed23c0400100000009cae7800"
    "ceac050d726fcefca6dc3465050020000000c7c5c1d70c5dec4416ab6158afd0b223ef40c29b1dc1f97ed9428b94d4cadb1c"
    "0600080000000800000000000000070010000000000000000000000000000000000000000800070000006275696c642d3709"
    "00150000006d6f64656c2e4465636f6465722e666f72776172640a00060000007365617263680b0015000000696e676f7420"
    "302e312e30206c6c766d2032322e310c00090000007838362d36342d76340d000f000000040000006176783203000000666d"
    "610e0008000000d0121300000000000f000800000000f1536500000000100024000000030000006c6c640600000032322e31"
    "2e3006000000736861646f7705000000657175616c";

Buffer Encoded(const Provenance& provenance) {
  Result<Buffer> out = EncodeProvenance(provenance);
  EXPECT_TRUE(out) << out.error().ToText();
  return out ? std::move(*out) : Buffer();
}

TEST(ProvenanceTest, BytesAreThoseOfTheFormat) { EXPECT_EQ(HexOf(Encoded(FakeProvenance())), kGolden); }

TEST(ProvenanceTest, ComesBack) {
  const Provenance provenance = FakeProvenance();
  const Result<Provenance> back = DecodeProvenance(Encoded(provenance));
  ASSERT_TRUE(back) << back.error().ToText();
  EXPECT_EQ(*back, provenance);
  const Provenance empty;
  const Result<Provenance> none = DecodeProvenance(Encoded(empty));
  ASSERT_TRUE(none) << none.error().ToText();
  EXPECT_EQ(*none, empty);
}

TEST(ProvenanceTest, EveryTruncationIsRefused) {
  const Buffer bytes = Encoded(FakeProvenance());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Result<Provenance> read = DecodeProvenance(Bytes(bytes).first(size));
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code(), Code::kCorrupt) << size;
  }
  Buffer longer = bytes;
  longer.push_back(0);
  EXPECT_FALSE(DecodeProvenance(longer));
}

TEST(ProvenanceTest, EveryFlippedBitIsRefusedOrAnotherValueOfThoseBytes) {
  const Provenance provenance = FakeProvenance();
  const Buffer bytes = Encoded(provenance);
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Buffer flipped = bytes;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const Result<Provenance> read = DecodeProvenance(flipped);
    refused += !read;
    if (!read) continue;
    EXPECT_NE(*read, provenance) << bit;
    EXPECT_EQ(Encoded(*read), flipped) << bit;
  }
  // Magic, major, tags and sizes alone.
  EXPECT_GE(refused, 8u * 6 * 16);
}

TEST(ProvenanceTest, LaterMajorIsRefusedByVersion) {
  Buffer bytes = Encoded(FakeProvenance());
  bytes[4] = 2;
  bytes.resize(20);
  const Result<Provenance> read = DecodeProvenance(bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kIncompatible);
  EXPECT_THAT(read.error().message(), HasSubstr("version 2"));
}

TEST(ProvenanceTest, LaterMinorMayHaveFieldsOfItsOwn) {
  Provenance later = FakeProvenance();
  later.minor = 1;
  later.later = {{17, {1, 2, 3}}, {300, {}}};
  const Buffer bytes = Encoded(later);
  const Result<Provenance> read = DecodeProvenance(bytes);
  ASSERT_TRUE(read) << read.error().ToText();
  EXPECT_EQ(*read, later);
  // The same fields are none of this version's.
  Buffer same = bytes;
  same[6] = 0;
  ASSERT_FALSE(DecodeProvenance(same));
  later.later = {{18, {}}, {17, {}}};
  EXPECT_FALSE(EncodeProvenance(later));
  later.later = {{4, {}}};
  EXPECT_FALSE(EncodeProvenance(later));
}

TEST(ProvenanceTest, TextsAreFitForATerminal) {
  for (const std::string& host :
       {std::string("a\x1b[2J"), std::string("a\nb"), std::string("a\0b", 3), std::string("\xff"),
        std::string("\xc0\x80"), std::string("\xe2\x80\xae") + "x", std::string(2000, 'a')}) {
    Provenance provenance = FakeProvenance();
    provenance.host = host;
    const Result<Buffer> bytes = EncodeProvenance(provenance);
    ASSERT_FALSE(bytes) << host;
    EXPECT_EQ(bytes.error().code(), Code::kInvalid);
  }
  Provenance provenance = FakeProvenance();
  provenance.host = "rechner-\xc3\xbc";
  EXPECT_TRUE(EncodeProvenance(provenance));
}

TEST(ProvenanceTest, ListsHaveOneOrder) {
  Provenance provenance = FakeProvenance();
  provenance.features = {"fma", "avx2"};
  EXPECT_FALSE(EncodeProvenance(provenance));
  provenance.features = {"avx2", "avx2"};
  EXPECT_FALSE(EncodeProvenance(provenance));
}

TEST(EnvelopeTest, ComesBackAndIsRefusedWhenCut) {
  const SigningKey key = FakeKey(1, "ci");
  const Result<Buffer> bytes = SignProvenance(key, FakeProvenance());
  ASSERT_TRUE(bytes);
  const Result<Envelope> read = DecodeEnvelope(*bytes);
  ASSERT_TRUE(read) << read.error().ToText();
  EXPECT_EQ(read->key, key.public_key().id());
  EXPECT_EQ(EncodeEnvelope(*read), *bytes);
  EXPECT_EQ(DecodeProvenance(read->provenance)->builder, key.public_key().id());
  for (size_t size = 0; size < bytes->size(); ++size) EXPECT_FALSE(DecodeEnvelope(Bytes(*bytes).first(size))) << size;
  Buffer longer = *bytes;
  longer.push_back(0);
  EXPECT_FALSE(DecodeEnvelope(longer));
  Buffer other = *bytes;
  other[4] = 9;
  EXPECT_EQ(DecodeEnvelope(other).error().code(), Code::kIncompatible);
}

}  // namespace
}  // namespace ingot::cache
