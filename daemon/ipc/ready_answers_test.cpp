// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/ready_answers.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace ingot::daemon {
namespace {

class ReadyAnswersTest : public testing::Test {
 protected:
  static Digest DigestOfNumber(uint64_t number) { return {number, number}; }

  ReadyAnswersTest() {
    auto entry = std::make_shared<Entry>();
    entry->digest = DigestOfNumber(1);
    entries_.Put(DigestOfNumber(1), std::move(entry), 1);
    for (const uint64_t number : {2, 3}) {
      Result<SealedRef> file = SealedFile::Copy(AsBytes(std::string(number, 'a')));
      files_.Put(DigestOfNumber(number), std::move(file).value(), 1);
    }
    ready_.Put(request_, "a", entries_.FindKept(DigestOfNumber(1)),
               {files_.FindKept(DigestOfNumber(2)), files_.FindKept(DigestOfNumber(3))});
  }

  const Digest request_{7, 7};
  Lru<EntryRef> entries_{8, 8};
  Lru<SealedRef> files_{8, 8};
  ReadyAnswers ready_{8};
};

TEST_F(ReadyAnswersTest, AnswersWhatItWasGiven) {
  const auto answer = ready_.Find(request_, "a");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->entry->digest, DigestOfNumber(1));
  ASSERT_EQ(answer->files.size(), 2u);
  EXPECT_EQ(answer->files[1]->size(), 3u);
  EXPECT_FALSE(ready_.Find(DigestOfNumber(8), "a"));
}

TEST_F(ReadyAnswersTest, ForgetsAnEntryThatHasChangedAlsoWhileSomebodyHasTheOldOne) {
  const auto held = entries_.FindKept(DigestOfNumber(1));
  entries_.Put(DigestOfNumber(1), std::make_shared<Entry>(), 1);
  EXPECT_FALSE(ready_.Find(request_, "a"));
}

TEST_F(ReadyAnswersTest, ForgetsAnArtifactThatIsNotServedAnyMoreAlsoWhileSomebodyHasIt) {
  const auto held = files_.FindKept(DigestOfNumber(3));
  files_.Erase(DigestOfNumber(3));
  EXPECT_FALSE(ready_.Find(request_, "a"));
}

TEST_F(ReadyAnswersTest, ForgetsWhatMakesRoomForOthers) {
  const auto held = files_.FindKept(DigestOfNumber(2));
  for (uint64_t number = 10; number < 20; ++number) {
    Result<SealedRef> file = SealedFile::Copy(AsBytes("b"));
    files_.Put(DigestOfNumber(number), std::move(file).value(), 1);
    files_.Find(DigestOfNumber(number));
  }
  EXPECT_FALSE(ready_.Find(request_, "a"));
}

TEST_F(ReadyAnswersTest, KeepsNothingInMemory) {
  const std::weak_ptr<const SealedFile> file = *files_.Find(DigestOfNumber(2));
  files_.Erase(DigestOfNumber(2));
  EXPECT_TRUE(file.expired());
}

}  // namespace
}  // namespace ingot::daemon
