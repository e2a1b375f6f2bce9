// SPDX-License-Identifier: Apache-2.0
#include "cache/store/key.h"

#include <gtest/gtest.h>

#include <string>

namespace ingot::cache {
namespace {

Item MakeItem(const std::string& name, const std::string& text) { return {name, DigestOf(name + "=" + text), text}; }

Key SmallKey() {
  return {{{"function", {MakeItem("name", "model.decode"), MakeItem("code", "")}},
           {"module_state", {MakeItem("layers.0.act", "SiLU"), MakeItem("training", "False")}},
           {"target", {MakeItem("isa", "x86-64-v3")}},
           {"ranks", {}}}};
}

// The digest is on every user's disk: it changes only together with the format's version.
TEST(Key, DigestIsPartOfTheFormat) {
  EXPECT_EQ(Key().ToDigest(), DigestOf(""));
  EXPECT_EQ(SmallKey().ToDigest().ToHex(), "d8ed439e1ba8d7b4da4e53986bda537d");
}

TEST(Key, DigestForgetsTheOrderOfComponentsAndKeepsThatOfItems) {
  Key other = SmallKey();
  std::swap(other.components[0], other.components[2]);
  EXPECT_EQ(other.ToDigest(), SmallKey().ToDigest());
  std::swap(other.components[1].items[0], other.components[1].items[1]);
  EXPECT_NE(other.ToDigest(), SmallKey().ToDigest());
}

// Text is for people; two builds may render one value differently.
TEST(Key, DigestIgnoresText) {
  Key other = SmallKey();
  other.components[1].items[0].text = "torch.nn.SiLU()";
  EXPECT_EQ(other.ToDigest(), SmallKey().ToDigest());
}

TEST(Key, EveryNameAndDigestCounts) {
  for (size_t c = 0; c < SmallKey().components.size(); ++c) {
    Key other = SmallKey();
    other.components[c].name += "x";
    EXPECT_NE(other.ToDigest(), SmallKey().ToDigest());
    for (size_t i = 0; i < SmallKey().components[c].items.size(); ++i) {
      other = SmallKey();
      other.components[c].items[i].name += "x";
      EXPECT_NE(other.ToDigest(), SmallKey().ToDigest());
      other = SmallKey();
      other.components[c].items[i].digest.high ^= 1;
      EXPECT_NE(other.ToDigest(), SmallKey().ToDigest());
    }
  }
}

TEST(EncodeKey, GivesBackTheSameKey) {
  const Buffer bytes = EncodeKey(SmallKey());
  const Result<Key> key = DecodeKey(bytes);
  ASSERT_TRUE(key) << key.error().ToText();
  EXPECT_EQ(key->ToDigest(), SmallKey().ToDigest());
  EXPECT_EQ(key->Find("module_state")->items[0].text, "SiLU");
  EXPECT_EQ(EncodeKey(*key), bytes);
  EXPECT_TRUE(DecodeKey(EncodeKey(Key())));
}

TEST(EncodeKey, IsCanonical) {
  Key other = SmallKey();
  std::swap(other.components[0], other.components[3]);
  EXPECT_EQ(EncodeKey(other), EncodeKey(SmallKey()));
}

TEST(DecodeKey, RejectsEveryTruncation) {
  const Buffer whole = EncodeKey(SmallKey());
  for (size_t size = 0; size < whole.size(); ++size) {
    const Result<Key> key = DecodeKey(Bytes(whole).first(size));
    ASSERT_FALSE(key) << "accepted a prefix of " << size << " bytes";
    EXPECT_EQ(key.error().code(), Code::kCorrupt);
  }
}

TEST(DecodeKey, RejectsEveryBitFlip) {
  const Buffer whole = EncodeKey(SmallKey());
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Buffer flipped = whole;
    flipped[bit / 8] ^= 1 << (bit % 8);
    const Result<Key> key = DecodeKey(flipped);
    ASSERT_FALSE(key) << "accepted a flip of bit " << bit;
    EXPECT_EQ(key.error().code(), Code::kCorrupt);
  }
}

/// The body of `bytes` with a digest that fits: what a hostile writer would send.
Buffer Resealed(Buffer bytes) {
  bytes.resize(bytes.size() - 16);
  const Digest digest = DigestOf(bytes);
  AppendLittle(bytes, digest.low);
  AppendLittle(bytes, digest.high);
  return bytes;
}

// A right digest is no proof of right fields: nothing may crash, and what decodes is canonical.
TEST(DecodeKey, SurvivesEveryByteUnderARightDigest) {
  const Buffer whole = EncodeKey(SmallKey());
  for (size_t at = 0; at + 16 < whole.size(); ++at) {
    for (const uint8_t value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      Buffer changed = whole;
      changed[at] = value;
      changed = Resealed(changed);
      const Result<Key> key = DecodeKey(changed);
      EXPECT_TRUE(!key || EncodeKey(*key) == changed) << at;
    }
  }
  for (size_t size = 16; size < whole.size(); ++size) {
    Buffer cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(DecodeKey(Resealed(cut))) << size;
  }
}

TEST(DecodeKey, SaysIncompatibleForAnotherVersion) {
  Buffer bytes = EncodeKey(SmallKey());
  bytes[4] = 2;
  const Result<Key> key = DecodeKey(Resealed(bytes));
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code(), Code::kIncompatible);
  EXPECT_EQ(key.error().message(), "key: format version 2, this build reads 1");
}

TEST(DecodeKey, RejectsComponentsThatRepeatOrAreUnsorted) {
  Key twice = SmallKey();
  twice.components.push_back(twice.components[0]);
  EXPECT_EQ(DecodeKey(EncodeKey(twice)).error().code(), Code::kCorrupt);
}

TEST(FirstDifference, IsNothingForEqualKeys) {
  EXPECT_FALSE(FirstDifference(SmallKey(), SmallKey()));
  EXPECT_EQ(Distance(SmallKey(), SmallKey()), 0u);
}

TEST(FirstDifference, NamesTheItemAndBothValues) {
  Key asked = SmallKey();
  asked.components[1].items[0] = MakeItem("layers.0.act", "GELU");
  EXPECT_EQ(FirstDifference(SmallKey(), asked)->ToText(), "module_state layers.0.act: SiLU -> GELU");
}

TEST(FirstDifference, ShowsDigestsWhereTextDoesNotTell) {
  Key asked = SmallKey();
  asked.components[0].items[1].digest = DigestOf("other code");
  const Difference code = *FirstDifference(SmallKey(), asked);
  EXPECT_EQ(code.stored, SmallKey().components[0].items[1].digest.ToShort());
  EXPECT_EQ(code.asked, DigestOf("other code").ToShort());
  asked = SmallKey();
  asked.components[1].items[1].digest = {1, 2};
  EXPECT_EQ(FirstDifference(SmallKey(), asked)->asked, "False (000000000000)");
}

TEST(FirstDifference, NamesWhatIsAbsentOnOneSide) {
  Key fewer = SmallKey();
  fewer.components[1].items.pop_back();
  EXPECT_EQ(FirstDifference(SmallKey(), fewer)->ToText(), "module_state training: False -> absent");
  EXPECT_EQ(FirstDifference(fewer, SmallKey())->ToText(), "module_state training: absent -> False");
  fewer = SmallKey();
  fewer.components.pop_back();
  EXPECT_EQ(FirstDifference(SmallKey(), fewer)->ToText(), "ranks: present -> absent");
  const Key stored = {{{"target", {MakeItem("feature avx2", "present"), MakeItem("feature avx512_bf16", "present")}}}};
  Key asked = stored;
  asked.components[0].items.pop_back();
  EXPECT_EQ(FirstDifference(stored, asked)->ToText(), "target feature avx512_bf16 missing");
}

TEST(Differences, ListsEveryItemInTheOrderForPeople) {
  Key asked = SmallKey();
  asked.components[2].items[0] = MakeItem("isa", "x86-64-v4");
  asked.components[1].items[0] = MakeItem("layers.0.act", "GELU");
  asked.components[1].items[1] = MakeItem("training", "True");
  const std::vector<Difference> all = Differences(SmallKey(), asked, 9);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].item, "layers.0.act");
  EXPECT_EQ(all[1].item, "training");
  EXPECT_EQ(all[2].asked, "x86-64-v4");
  EXPECT_EQ(Differences(SmallKey(), asked, 2).size(), 2u);
  EXPECT_TRUE(Differences(SmallKey(), SmallKey(), 9).empty());
}

TEST(FirstDifference, TellsAnotherOrderOfTheSameItems) {
  Key asked = SmallKey();
  std::swap(asked.components[1].items[0], asked.components[1].items[1]);
  EXPECT_EQ(FirstDifference(SmallKey(), asked)->ToText(), "module_state order: layers.0.act -> training");
}

TEST(FirstDifference, HandlesItemsThatShareAName) {
  Key stored = {{{"inputs", {MakeItem("x", "f32"), MakeItem("x", "f16")}}}};
  Key asked = {{{"inputs", {MakeItem("x", "f32"), MakeItem("x", "i64")}}}};
  EXPECT_EQ(FirstDifference(stored, asked)->ToText(), "inputs x: f16 -> i64");
  asked.components[0].items.push_back(MakeItem("x", "u8"));
  asked.components[0].items[1] = stored.components[0].items[1];
  EXPECT_EQ(FirstDifference(stored, asked)->ToText(), "inputs x: absent -> u8");
}

// A changed function usually changes much else; people look for the cause first.
TEST(FirstDifference, PutsTheCauseBeforeWhatFollows) {
  Key asked = SmallKey();
  asked.components[2].items[0] = MakeItem("isa", "x86-64-v4");
  asked.components[0].items[0] = MakeItem("name", "model.prefill");
  EXPECT_EQ(FirstDifference(SmallKey(), asked)->component, "function");
}

TEST(Distance, GrowsWithEveryDifference) {
  Key one = SmallKey();
  one.components[1].items[0] = MakeItem("layers.0.act", "GELU");
  Key two = one;
  two.components[1].items[1] = MakeItem("training", "True");
  Key other_component = two;
  other_component.components[2].items[0] = MakeItem("isa", "x86-64-v4");
  EXPECT_EQ(Distance(SmallKey(), one), 2u);
  EXPECT_EQ(Distance(SmallKey(), two), 3u);
  EXPECT_EQ(Distance(SmallKey(), other_component), 5u);
  EXPECT_EQ(Distance(other_component, SmallKey()), 5u);
  EXPECT_EQ(Distance(SmallKey(), Key()), 9u);
}

}  // namespace
}  // namespace ingot::cache
