// SPDX-License-Identifier: Apache-2.0
#include "daemon/tune/tuning_table.h"

#include <gtest/gtest.h>

#include "base/processors.h"
#include "cache/store/memory_store.h"
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
  all[0]->candidates = 2;
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

TEST(TuningTable, TheLibraryTakesTheScheduleSPlaceWhereItIsFaster) {
  cache::MemoryStore store;
  const Config config;
  TuningTable table(store, config);
  const Digest kernel{1, 0};
  EXPECT_EQ(table.AddRival(kFacts, kernel, proto::Rival::Library, 100, 50).error().code(), Code::kNotFound);
  table.Offer(kernel, "product");
  EXPECT_EQ(table.AddRival(kFacts, kernel, proto::Rival::Library, 100, 97).error().code(), Code::kInvalid);
  EXPECT_TRUE(table.HeldAgainstLibrary(kFacts).empty());
  EXPECT_TRUE(*table.AddRival(kFacts, kernel, proto::Rival::Library, 100, 50));
  EXPECT_TRUE(table.KnownFor(kFacts).empty()) << "its schedules were not measured";
  EXPECT_EQ(table.HeldAgainstLibrary(kFacts), (std::vector<uint64_t>{1, 0}));
  TuningTable later(store, config);
  ASSERT_NE(later.ChoicesFor(kFacts), nullptr);
  EXPECT_EQ(later.ChoicesFor(kFacts)->choices.at(0)->schedule, "library");
  EXPECT_EQ(later.Of(kFacts, kernel)->name, "product");
  // Beside schedules; measured again it may be otherwise.
  later.Add(kFacts, Measured(2, "tile 2"));
  EXPECT_EQ(later.ChoicesFor(kFacts)->choices.size(), 2u);
  later.Offer(kernel, "product");
  EXPECT_FALSE(*later.AddRival(kFacts, kernel, proto::Rival::Kernel, 100, 99));
  ASSERT_EQ(later.ChoicesFor(kFacts)->choices.size(), 1u);
  EXPECT_EQ(later.ChoicesFor(kFacts)->choices[0]->schedule, "tile 2");
  EXPECT_EQ(later.KnownFor(kFacts), (std::vector<uint64_t>{2, 0}));
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
  record_.kernels[0]->faster = proto::Rival::Library;
  record_.kernels[0]->kernel_ns = 100;
  record_.kernels[0]->library_ns = 50;
  bytes_ = proto::PackMessage<proto::TuningRecord>(record_);
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
  const auto refused = [&](auto change) {
    const proto::MeasuredT before = *record_.kernels[0];
    change(*record_.kernels[0]);
    const auto record = Decode(proto::PackMessage<proto::TuningRecord>(record_));
    *record_.kernels[0] = before;
    return !record && record.error().code() == Code::kCorrupt;
  };
  EXPECT_TRUE(refused([](auto& one) { one.schedule.assign(5000, 'x'); }));
  EXPECT_TRUE(refused([](auto& one) { one.faster = proto::Rival::Library; }));
  EXPECT_TRUE(refused([](auto& one) { one.kernel_ns = ~uint64_t{0}; }));
  EXPECT_TRUE(refused([](auto& one) { one.faster = static_cast<proto::Rival>(3); }));
  EXPECT_FALSE(refused([](auto&) {}));
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
