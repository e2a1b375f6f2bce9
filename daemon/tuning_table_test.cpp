// SPDX-License-Identifier: Apache-2.0
#include "daemon/tuning_table.h"

#include <gtest/gtest.h>

#include "base/processors.h"
#include "cache/memory_store.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

const CompilerFacts kFacts{"compiler 1", "x86-64-v4", {"avx512f", "avx512vl"}};

std::vector<std::unique_ptr<proto::MeasuredT>> Measured(uint64_t kernel, const std::string& schedule) {
  std::vector<std::unique_ptr<proto::MeasuredT>> all;
  all.push_back(std::make_unique<proto::MeasuredT>());
  all[0]->kernel_low = kernel;
  all[0]->name = "product";
  all[0]->schedule = schedule;
  return all;
}

TEST(TuningTable, KeepsWhatWasMeasuredForWhoComesLater) {
  cache::MemoryStore store;
  const Config config;
  TuningTable table(store, config);
  EXPECT_EQ(table.ChoicesFor(kFacts), nullptr);
  EXPECT_TRUE(table.Add(kFacts, Measured(1, "tile 2")));
  EXPECT_FALSE(table.Add(kFacts, Measured(2, ""))) << "its first schedule is the fastest";
  TuningTable later(store, config);
  const auto choices = later.ChoicesFor(kFacts);
  ASSERT_NE(choices, nullptr);
  ASSERT_EQ(choices->choices.size(), 1u);
  EXPECT_EQ(choices->choices[0]->schedule, "tile 2");
  EXPECT_EQ(later.KnownFor(kFacts), (std::vector<uint64_t>{1, 0, 2, 0}));
  EXPECT_EQ(later.Of(kFacts, {1, 0})->name, "product");
  EXPECT_EQ(later.Of(kFacts, {3, 0}), nullptr);
  // Another measurement takes the first one's place.
  EXPECT_FALSE(later.Add(kFacts, Measured(1, "")));
  EXPECT_EQ(later.ChoicesFor(kFacts), nullptr);
  EXPECT_EQ(later.KnownFor(kFacts), (std::vector<uint64_t>{2, 0, 1, 0}));
}

TEST(TuningTable, SaysNothingOfOtherMachinesAndCompilers) {
  cache::MemoryStore store;
  const Config config;
  TuningTable table(store, config);
  table.Add(kFacts, Measured(1, "tile 2"));
  CompilerFacts other = kFacts;
  other.identity = "compiler 2";
  EXPECT_EQ(table.ChoicesFor(other), nullptr);
  other = kFacts;
  other.features.pop_back();
  EXPECT_EQ(table.ChoicesFor(other), nullptr);
  EXPECT_NE(table.ChoicesFor(kFacts), nullptr) << "both are kept";
  EXPECT_NE(MachineText(kFacts).find(std::to_string(ProcessorCount()) + " processors"), std::string::npos);
}

TEST(TuningTable, ForgetsTheOldestOverItsLimit) {
  cache::MemoryStore store;
  Config config;
  config.tuning_kernels_max = 2;
  TuningTable table(store, config);
  for (uint64_t kernel = 1; kernel <= 4; ++kernel) table.Add(kFacts, Measured(kernel, "tile 2"));
  EXPECT_EQ(table.KnownFor(kFacts), (std::vector<uint64_t>{3, 0, 4, 0}));
}

class DecodeTuningTest : public testing::Test {
 protected:
  DecodeTuningTest() {
    record_.machine = "this";
    for (uint64_t kernel = 1; kernel <= 3; ++kernel)
      record_.kernels.push_back(std::move(Measured(kernel, "tile 2")[0]));
    bytes_ = proto::PackMessage<proto::TuningRecord>(record_);
  }
  Result<proto::TuningRecordT> Decode(Bytes bytes) const { return DecodeTuning(bytes, "this", config_); }

  Config config_;
  proto::TuningRecordT record_;
  Buffer bytes_;
};

TEST_F(DecodeTuningTest, GivesBackWhatWasWritten) {
  const auto record = Decode(bytes_);
  ASSERT_TRUE(record) << record.error().ToText();
  EXPECT_EQ(proto::PackMessage<proto::TuningRecord>(*record), bytes_);
}

TEST_F(DecodeTuningTest, RefusesWhatIsCutOff) {
  for (size_t size = 0; size < bytes_.size(); ++size) {
    const Buffer cut(bytes_.begin(), bytes_.begin() + static_cast<long>(size));
    const auto record = Decode(cut);
    // The end of a message may be padding.
    if (record) {
      EXPECT_EQ(proto::PackMessage<proto::TuningRecord>(*record), bytes_);
    } else {
      EXPECT_EQ(record.error().code(), Code::kCorrupt);
    }
  }
}

TEST_F(DecodeTuningTest, ReadsNothingOutsideWhateverBitIsWrong) {
  for (size_t bit = 0; bit < bytes_.size() * 8; ++bit) {
    Buffer flipped = bytes_;
    flipped[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    const auto record = Decode(flipped);
    if (record) {
      EXPECT_EQ(record->machine, "this");
      EXPECT_LE(record->kernels.size(), config_.tuning_kernels_max);
    }
  }
}

TEST_F(DecodeTuningTest, RefusesWhatNoDaemonWrites) {
  EXPECT_EQ(DecodeTuning(bytes_, "another", config_).error().code(), Code::kCorrupt);
  config_.tuning_kernels_max = 2;
  EXPECT_EQ(Decode(bytes_).error().code(), Code::kCorrupt);
  config_.tuning_kernels_max = 3;
  record_.kernels[0]->schedule.assign(5000, 'x');
  EXPECT_EQ(Decode(proto::PackMessage<proto::TuningRecord>(record_)).error().code(), Code::kCorrupt);
}

TEST_F(DecodeTuningTest, ADamagedRecordIsDroppedAndMeasuredAgain) {
  cache::MemoryStore store;
  TuningTable(store, config_).Add(kFacts, Measured(1, "tile 2"));
  const auto rows = store.List(cache::Table::kStats, "", 10);
  ASSERT_EQ(rows->rows.size(), 1u);
  ASSERT_TRUE(store.Put(cache::Table::kStats, rows->rows[0].key, AsBytes("no record"), {}));
  TuningTable table(store, config_);
  EXPECT_EQ(table.ChoicesFor(kFacts), nullptr);
  EXPECT_TRUE(table.Add(kFacts, Measured(1, "tile 2")));
  EXPECT_NE(TuningTable(store, config_).ChoicesFor(kFacts), nullptr);
}

}  // namespace
}  // namespace ingot::daemon
