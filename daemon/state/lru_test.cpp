// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/lru.h"

#include <gtest/gtest.h>

#include <string>

namespace ingot::daemon {
namespace {

Digest Key(uint64_t number) { return Digest{number, 0}; }

/// Which of them are kept; does not use them.
std::string KeptOf(const std::vector<std::shared_ptr<const Lru<int>::Kept>>& watched) {
  std::string out;
  for (size_t i = 0; i < watched.size(); ++i) {
    if (watched[i] != nullptr && watched[i]->is_kept) out += std::to_string(i) + " ";
  }
  return out;
}

TEST(Lru, KeepsWhatWasUsedLast) {
  Lru<int> lru(3, 100);
  for (int i = 0; i < 4; ++i) lru.Put(Key(i), i, 1);
  EXPECT_EQ(lru.Find(Key(0)), nullptr);
  ASSERT_NE(lru.Find(Key(1)), nullptr);
  lru.Put(Key(4), 4, 1);
  EXPECT_EQ(lru.Find(Key(2)), nullptr);
  EXPECT_EQ(*lru.Find(Key(1)), 1);
  EXPECT_EQ(lru.size(), 3u);
}

TEST(Lru, WhatIsAskedForOnceLeavesWhatIsUsed) {
  Lru<int> lru(10, 1000);
  std::vector<std::shared_ptr<const Lru<int>::Kept>> used;
  for (int i = 0; i < 8; ++i) {
    lru.Put(Key(i), i, 1);
    used.push_back(lru.FindKept(Key(i)));
  }
  for (int i = 100; i < 200; ++i) lru.Put(Key(i), i, 1);
  EXPECT_EQ(KeptOf(used), "0 1 2 3 4 5 6 7 ");
  // Of more than four fifths, the longest unused make room.
  for (int i = 200; i < 203; ++i) {
    lru.Put(Key(i), i, 1);
    lru.Find(Key(i));
  }
  for (int i = 300; i < 400; ++i) lru.Put(Key(i), i, 1);
  EXPECT_EQ(KeptOf(used), "3 4 5 6 7 ");
  EXPECT_EQ(lru.size(), 10u);
}

TEST(Lru, KeepsWithinItsWeightWhateverWasFound) {
  Lru<int> lru(100, 100);
  lru.Put(Key(1), 1, 90);
  ASSERT_NE(lru.Find(Key(1)), nullptr);  // over the share of what was found
  EXPECT_EQ(*lru.Find(Key(1)), 1);
  lru.Put(Key(2), 2, 60);
  EXPECT_EQ(lru.Find(Key(1)), nullptr);
  EXPECT_EQ(lru.weight(), 60u);
  lru.Put(Key(3), 3, 101);
  EXPECT_EQ(lru.Find(Key(3)), nullptr);
  EXPECT_EQ(*lru.Find(Key(2)), 2);
}

TEST(Lru, AnotherValueOfAKeyStaysWhereTheKeyWas) {
  Lru<int> lru(5, 100);
  lru.Put(Key(1), 1, 1);
  const auto before = lru.FindKept(Key(1));
  const auto gone = lru.Put(Key(1), 2, 3);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_FALSE(before->is_kept);
  EXPECT_EQ(lru.weight(), 3u);
  for (int i = 10; i < 20; ++i) lru.Put(Key(i), i, 1);
  ASSERT_NE(lru.Find(Key(1)), nullptr);
  EXPECT_EQ(*lru.Find(Key(1)), 2);
}

TEST(Lru, HandsOutWhatGoesSoThatItsEndComesLater) {
  struct Ends {
    explicit Ends(int& count) : count(&count) {}
    ~Ends() { ++*count; }
    int* count;
  };
  int ended = 0;
  Lru<std::shared_ptr<Ends>> lru(1, 10);
  lru.Put(Key(1), std::make_shared<Ends>(ended), 1);
  {
    const auto gone = lru.Put(Key(2), std::make_shared<Ends>(ended), 1);
    EXPECT_EQ(gone.size(), 1u);
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(lru.Erase(Key(2)).size(), 1u);
  EXPECT_EQ(ended, 2);
  EXPECT_TRUE(lru.Erase(Key(2)).empty());
  EXPECT_EQ(lru.size(), 0u);
  EXPECT_EQ(lru.weight(), 0u);
}

}  // namespace
}  // namespace ingot::daemon
