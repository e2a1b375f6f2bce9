// SPDX-License-Identifier: Apache-2.0
#include "cache/store/row.h"

#include <gtest/gtest.h>

namespace ingot::cache {
namespace {

CommitRow SmallCommit(uint32_t chunks) { return {5, DigestOf("value"), 0x1122334455667788, chunks}; }
FactsRow SmallFacts() { return {{5, 100, 200, 3, 1.5, true, 42}, 7, -2.5, {8, 9}}; }

TEST(CommitRow, GivesBackWhatWasWritten) {
  const Result<CommitRow> inline_row = DecodeCommitRow(EncodeCommitRow(SmallCommit(0), AsBytes("value")));
  ASSERT_TRUE(inline_row) << inline_row.error().ToText();
  EXPECT_EQ(inline_row->bytes, 5u);
  EXPECT_EQ(inline_row->digest, DigestOf("value"));
  EXPECT_EQ(inline_row->write_id, 0x1122334455667788u);
  const Result<CommitRow> chunked = DecodeCommitRow(EncodeCommitRow(SmallCommit(3), {}));
  ASSERT_TRUE(chunked);
  EXPECT_EQ(chunked->chunks, 3u);
}

TEST(CommitRow, RejectsEveryTruncationAndExtension) {
  Buffer whole = EncodeCommitRow(SmallCommit(0), AsBytes("value"));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(DecodeCommitRow(Bytes(whole).first(size)).error().code(), Code::kCorrupt) << size;
  }
  whole.push_back(0);
  EXPECT_FALSE(DecodeCommitRow(whole));
}

TEST(CommitRow, RejectsEveryBitFlipOfItsHeader) {
  const Buffer whole = EncodeCommitRow(SmallCommit(0), AsBytes("value"));
  for (size_t bit = 0; bit < 8 * kCommitRowBytes; ++bit) {
    Buffer flipped = whole;
    flipped[bit / 8] ^= 1 << (bit % 8);
    EXPECT_EQ(DecodeCommitRow(flipped).error().code(), Code::kCorrupt) << bit;
  }
}

TEST(FactsRow, GivesBackWhatWasWritten) {
  const Result<FactsRow> row = DecodeFactsRow(EncodeFactsRow(SmallFacts()));
  ASSERT_TRUE(row) << row.error().ToText();
  EXPECT_EQ(row->stat.bytes, 5u);
  EXPECT_EQ(row->stat.created, 100);
  EXPECT_EQ(row->stat.used, 200);
  EXPECT_EQ(row->stat.hits, 3u);
  EXPECT_EQ(row->stat.cost_s, 1.5);
  EXPECT_TRUE(row->stat.pinned);
  EXPECT_EQ(row->stat.version, 42u);
  EXPECT_EQ(row->chunks, 7u);
  EXPECT_EQ(row->score, -2.5);
  EXPECT_EQ(row->group, (Digest{8, 9}));
}

TEST(FactsRow, RejectsEveryTruncationAndBitFlip) {
  const Buffer whole = EncodeFactsRow(SmallFacts());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeFactsRow(Bytes(whole).first(size))) << size;
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Buffer flipped = whole;
    flipped[bit / 8] ^= 1 << (bit % 8);
    EXPECT_FALSE(DecodeFactsRow(flipped)) << bit;
  }
}

/// A row with the check that fits the bytes before it: what a later version could write.
Buffer Resealed(Buffer row, size_t check_at) {
  const uint64_t check = DigestOf(Bytes(row).first(check_at)).low;
  std::memcpy(row.data() + check_at, &check, sizeof check);
  return row;
}

// One value, one row: a reader that skips what it does not know would change it when it writes.
TEST(Rows, RejectBytesThatHaveNoMeaning) {
  Buffer commit = EncodeCommitRow(SmallCommit(3), {});
  EXPECT_TRUE(DecodeCommitRow(Resealed(commit, 48)));
  commit[40] = 1;
  EXPECT_EQ(DecodeCommitRow(Resealed(commit, 48)).error().code(), Code::kCorrupt);
  Buffer facts = EncodeFactsRow(SmallFacts());
  EXPECT_TRUE(DecodeFactsRow(Resealed(facts, 78)));
  facts[1] = 2;
  EXPECT_EQ(DecodeFactsRow(Resealed(facts, 78)).error().code(), Code::kCorrupt);
}

TEST(RowKeys, OrderAsTheirNumbersDo) {
  EXPECT_LT(RowKey({0xFF, 1}), RowKey({0, 2}));
  EXPECT_LT(RowKey({1, 1}), RowKey({0x100, 1}));
  const Digest key{3, 4};
  EXPECT_LT(ChunkKey(Table::kGraphs, key, 1, 255), ChunkKey(Table::kGraphs, key, 1, 256));
  EXPECT_LT(QuarantineKey(255, Table::kStats, key), QuarantineKey(256, Table::kEntries, key));
  EXPECT_TRUE(ChunkKey(Table::kGraphs, key, 1, 9).starts_with(WriteKey(Table::kGraphs, key, 1)));
  EXPECT_EQ(*DigestFromFactsKey(AsBytes(FactsKey(Table::kGraphs, key))), key);
  EXPECT_FALSE(DigestFromFactsKey(AsBytes("short")));
}

TEST(OrderKey, SortsAsTheScoresDo) {
  std::string last;
  for (const double score : {-1e300, -2.5, -1e-300, -0.0, 0.0, 1e-300, 1.0, 1.5, 1e300}) {
    const std::string key = OrderKey(Table::kGraphs, score, {1, 2});
    EXPECT_LT(last, key) << score;
    const auto parts = PartsOfOrderKey(AsBytes(key));
    ASSERT_TRUE(parts);
    EXPECT_EQ(parts->first, score);
    EXPECT_EQ(parts->second, (Digest{1, 2}));
    last = key;
  }
  EXPECT_FALSE(PartsOfOrderKey(AsBytes("short")));
}

TEST(GroupKey, SortsTheNewestFirst) {
  const Digest group = DigestOf("g");
  std::string last;
  for (const int64_t created : {int64_t{1} << 40, int64_t{2}, int64_t{1}, int64_t{0}}) {
    const std::string key = GroupKey(Table::kEntries, group, created, {3, 4});
    EXPECT_LT(last, key) << created;
    EXPECT_EQ(*PartsOfGroupKey(AsBytes(key)), std::pair(created, Digest{3, 4}));
    last = key;
  }
  EXPECT_FALSE(PartsOfGroupKey(AsBytes("short")));
}

}  // namespace
}  // namespace ingot::cache
