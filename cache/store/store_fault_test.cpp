// SPDX-License-Identifier: Apache-2.0
// What a store on disk does when its bytes, its disk or its process fail.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/fake_clock.h"
#include "base/faulty_filesystem.h"
#include "base/temp_dir.h"
#include "cache/store/open_store.h"
#include "cache/store/rocks_db.h"
#include "cache/store/row.h"

namespace ingot::cache {
namespace {

using testing::AnyOf;
using testing::Eq;
using testing::HasSubstr;

constexpr uint64_t kChunk = 4096;

// Does not compress, so that positions in files are positions in values.
Buffer SeededValue(size_t size, uint32_t seed) {
  Buffer value(size);
  uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
  for (uint8_t& byte : value) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(x >> 56);
  }
  return value;
}

class StoreFault : public testing::Test {
 protected:
  StoreFault() {
    options_.chunk_bytes = kChunk;
    options_.disk_free_bytes_min = 0;
    options_.clock = &clock_;
    options_.metrics = &metrics_;
    options_.filesystem = &faulty_;
  }

  Result<std::unique_ptr<Store>> TryOpen() { return OpenStore(path_, options_); }
  void Open() {
    store_.reset();
    Result<std::unique_ptr<Store>> store = TryOpen();
    ASSERT_TRUE(store) << store.error().ToText();
    store_ = std::move(store).value();
  }
  void Close() { store_.reset(); }
  /// Puts value `seed` under its digest.
  Digest Fill(size_t size, uint32_t seed) {
    const Buffer value = SeededValue(size, seed);
    const auto put = store_->Put(Table::kArtifacts, DigestOf(value), value, {.cost_s = 1});
    EXPECT_TRUE(put) << put.error().ToText();
    total_ = store_->TotalsOf()[static_cast<size_t>(Table::kArtifacts)].bytes;
    return DigestOf(value);
  }
  /// Changes rows of the closed store behind its back.
  void ChangeRaw(const std::vector<RowChange>& changes) {
    Close();
    Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path_ + "/db", {});
    ASSERT_TRUE(db) << db.error().ToText();
    ASSERT_TRUE((*db)->Apply(changes, true));
  }
  std::vector<std::pair<std::string, Buffer>> RawRows(Family family) {
    Close();
    std::vector<std::pair<std::string, Buffer>> rows;
    Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(path_ + "/db", {});
    EXPECT_TRUE(db);
    EXPECT_TRUE((*db)->Scan(family, "", [&](Bytes key, Bytes value) {
      rows.emplace_back(AsText(key), Buffer(value.begin(), value.end()));
      return true;
    }));
    return rows;
  }
  /// The value is refused once, reported, and then simply absent; a fresh one can be written.
  void ExpectQuarantined(const Digest& name, const Buffer& value, const std::string& reason) {
    Open();
    const Result<Value> got = store_->Get(Table::kArtifacts, name);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), Code::kCorrupt);
    EXPECT_THAT(got.error().message(), HasSubstr(reason));
    EXPECT_EQ(metrics_.Get(Counter::store_corrupt), 1u);
    EXPECT_EQ(store_->Get(Table::kArtifacts, name).error().code(), Code::kNotFound);
    std::vector<Damage> damages;
    ASSERT_TRUE(store_->ForEachDamaged([&](const Damage& damage) {
      damages.push_back(damage);
      return true;
    }));
    ASSERT_EQ(damages.size(), 1u);
    EXPECT_EQ(damages[0].key, name);
    EXPECT_EQ(damages[0].table, Table::kArtifacts);
    EXPECT_EQ(damages[0].found, clock_.now_s());
    EXPECT_THAT(damages[0].reason, HasSubstr(reason));
    ASSERT_NE(*store_->Put(Table::kArtifacts, name, value, {.cost_s = 1, .expected = 0}), 0u);
    EXPECT_EQ(store_->TotalsOf()[static_cast<size_t>(Table::kArtifacts)].bytes, total_);
    EXPECT_EQ(store_->Get(Table::kArtifacts, name)->bytes, value);
  }
  std::vector<std::string> Asides() {
    Result<std::vector<std::string>> names = RealFilesystem().List(path_ + "/aside");
    return names ? *names : std::vector<std::string>();
  }
  std::string ReasonOf(const std::string& aside) {
    const Result<Buffer> text = RealFilesystem().Read(path_ + "/aside/" + aside + "/REASON", 4096);
    return text ? std::string(AsText(*text)) : "(none)";
  }

  TempDir dir_;
  const std::string path_ = dir_ / "store";
  FakeClock clock_;
  Metrics metrics_;
  uint64_t total_ = 0;
  FaultyFilesystem faulty_{RealFilesystem()};
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreFault, ReopeningFindsEverything) {
  Open();
  const Digest small = Fill(100, 1);
  const Digest large = Fill(20 * kChunk, 2);
  store_->Touch(Table::kArtifacts, small);
  ASSERT_TRUE(store_->Pin(Table::kArtifacts, large, true));
  Open();
  EXPECT_EQ(store_->Get(Table::kArtifacts, small)->bytes, SeededValue(100, 1));
  EXPECT_EQ(store_->Get(Table::kArtifacts, large)->bytes, SeededValue(20 * kChunk, 2));
  EXPECT_EQ(store_->StatOf(Table::kArtifacts, small)->hits, 1u);
  EXPECT_TRUE(store_->StatOf(Table::kArtifacts, large)->pinned);
  EXPECT_TRUE(Asides().empty());
}

TEST_F(StoreFault, ReopeningLeavesNoFilesBehind) {
  Open();
  Fill(3 * kChunk, 1);
  Open();
  const size_t files = RealFilesystem().List(path_ + "/db")->size();
  for (int i = 0; i < 10; ++i) {
    Open();
    EXPECT_TRUE(store_->Get(Table::kArtifacts, DigestOf(SeededValue(3 * kChunk, 1))));
  }
  EXPECT_LE(RealFilesystem().List(path_ + "/db")->size(), files + 2);
}

TEST_F(StoreFault, DirectoriesArePrivate) {
  Open();
  for (const std::string& place : {path_, path_ + "/db"}) {
    struct stat found{};
    ASSERT_EQ(::stat(place.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700u) << place;
  }
}

TEST_F(StoreFault, MissingChunkIsQuarantined) {
  Open();
  const Buffer value = SeededValue(5 * kChunk, 1);
  const Digest name = Fill(5 * kChunk, 1);
  ChangeRaw({{RowChange::Kind::kErase, Family::kChunks, RawRows(Family::kChunks)[3].first}});
  ExpectQuarantined(name, value, "chunk 3 of 5 is missing");
  EXPECT_EQ(RawRows(Family::kChunks).size(), 5u) << "chunks of the damaged value are left";
}

TEST_F(StoreFault, TruncatedChunkIsQuarantined) {
  Open();
  const Digest name = Fill(5 * kChunk, 1);
  auto [key, chunk] = RawRows(Family::kChunks)[4];
  chunk.pop_back();
  ChangeRaw({{RowChange::Kind::kPut, Family::kChunks, key, chunk}});
  ExpectQuarantined(name, SeededValue(5 * kChunk, 1), "the chunks hold 20479 bytes, 20480 were");
}

TEST_F(StoreFault, OverlongChunkIsQuarantined) {
  Open();
  const Digest name = Fill(5 * kChunk, 1);
  auto [key, chunk] = RawRows(Family::kChunks)[4];
  chunk.push_back(0);
  ChangeRaw({{RowChange::Kind::kPut, Family::kChunks, key, chunk}});
  ExpectQuarantined(name, SeededValue(5 * kChunk, 1), "chunk 4 has 4097 bytes");
}

TEST_F(StoreFault, FlippedBitInAChunkIsQuarantined) {
  Open();
  const Digest name = Fill(5 * kChunk, 1);
  auto [key, chunk] = RawRows(Family::kChunks)[2];
  chunk[1000] ^= 4;
  ChangeRaw({{RowChange::Kind::kPut, Family::kChunks, key, chunk}});
  ExpectQuarantined(name, SeededValue(5 * kChunk, 1), "do not match the digest");
}

TEST_F(StoreFault, FlippedBitInASmallValueIsQuarantined) {
  Open();
  const Digest name = Fill(100, 1);
  auto [key, row] = RawRows(Family::kArtifacts)[0];
  row.back() ^= 1;
  ChangeRaw({{RowChange::Kind::kPut, Family::kArtifacts, key, row}});
  ExpectQuarantined(name, SeededValue(100, 1), "do not match the digest");
}

TEST_F(StoreFault, EveryTruncationOfARecordIsQuarantined) {
  Open();
  const Digest name = Fill(10, 1);
  const auto [key, row] = RawRows(Family::kArtifacts)[0];
  for (size_t size = 0; size < row.size(); size += 13) {
    metrics_.Reset();
    clock_.AdvanceSeconds(1);
    ChangeRaw({{RowChange::Kind::kPut, Family::kArtifacts, key, Bytes(row).first(size)},
               {RowChange::Kind::kErasePrefix, Family::kQuarantine, std::string(1, '\0')}});
    ExpectQuarantined(name, SeededValue(10, 1), "commit record");
  }
}

// A right record under a wrong name is what a bug or a copied file would leave.
TEST_F(StoreFault, ArtifactUnderAnotherNameIsRefused) {
  Open();
  Fill(100, 1);
  const Digest wrong = DigestOf("another name");
  const auto [key, row] = RawRows(Family::kArtifacts)[0];
  const auto [facts_key, facts] = RawRows(Family::kFacts)[0];
  ChangeRaw({{RowChange::Kind::kPut, Family::kArtifacts, RowKey(wrong), row},
             {RowChange::Kind::kPut, Family::kFacts, FactsKey(Table::kArtifacts, wrong), facts}});
  Open();
  EXPECT_EQ(store_->Get(Table::kArtifacts, wrong).error().code(), Code::kCorrupt);
  EXPECT_EQ(store_->Get(Table::kArtifacts, wrong).error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Put(Table::kArtifacts, wrong, AsBytes("x"), {}).error().code(), Code::kInvalid);
}

TEST_F(StoreFault, WriteThatDidNotCommitLeavesNothing) {
  Open();
  const Digest kept = Fill(3 * kChunk, 1);
  const Digest lost = DigestOf("lost");
  const Buffer chunk = SeededValue(kChunk, 9);
  ChangeRaw({{RowChange::Kind::kPut, Family::kPending, WriteKey(Table::kArtifacts, lost, 77)},
             {RowChange::Kind::kPut, Family::kChunks, ChunkKey(Table::kArtifacts, lost, 77, 0), chunk},
             {RowChange::Kind::kPut, Family::kChunks, ChunkKey(Table::kArtifacts, lost, 77, 1), chunk}});
  Open();
  EXPECT_EQ(store_->Get(Table::kArtifacts, lost).error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Get(Table::kArtifacts, kept)->bytes, SeededValue(3 * kChunk, 1));
  EXPECT_EQ(RawRows(Family::kChunks).size(), 3u);
  EXPECT_TRUE(RawRows(Family::kPending).empty());
}

TEST_F(StoreFault, ReplacingAndDeletingLeaveNoChunks) {
  Open();
  const Digest key = DigestOf("entry");
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(store_->Put(Table::kEntries, key, SeededValue((5 - i) * kChunk, i), {}));
  }
  EXPECT_EQ(RawRows(Family::kChunks).size(), 0u) << "the last value is one inline row";
  Open();
  ASSERT_TRUE(store_->Put(Table::kEntries, key, SeededValue(4 * kChunk, 1), {}));
  EXPECT_EQ(RawRows(Family::kChunks).size(), 4u);
  Open();
  ASSERT_TRUE(store_->Delete(Table::kEntries, key));
  EXPECT_EQ(RawRows(Family::kChunks).size(), 0u);
  for (const Family family : {Family::kFacts, Family::kOrder, Family::kGroups, Family::kEntries}) {
    EXPECT_EQ(RawRows(family).size(), 0u) << static_cast<int>(family);
  }
}

TEST_F(StoreFault, OrderGroupsAndTotalsAreThereAfterACrash) {
  Open();
  ASSERT_TRUE(store_->Put(Table::kEntries, {1, 0}, SeededValue(100, 1), {.cost_s = 1, .group = "g"}));
  ASSERT_TRUE(store_->Put(Table::kEntries, {2, 0}, SeededValue(50, 1), {.cost_s = 1, .group = "g"}));
  ASSERT_TRUE(store_->Delete(Table::kEntries, {1, 0}));
  Open();
  EXPECT_EQ(store_->TotalsOf()[static_cast<size_t>(Table::kEntries)].count, 1u);
  EXPECT_EQ(store_->TotalsOf()[static_cast<size_t>(Table::kEntries)].bytes, 50u);
  EXPECT_EQ(store_->ListGroup(Table::kEntries, "g", "", 9)->rows.size(), 1u);
  EXPECT_EQ(store_->Cheapest(Table::kEntries, "", 9)->rows.size(), 1u);
}

// What a damaged row of facts no longer names is met, and cleared away, where it would be used.
TEST_F(StoreFault, OrderRowsOfNoValueAreDropped) {
  Open();
  ASSERT_TRUE(store_->Put(Table::kEntries, {1, 0}, SeededValue(100, 1), {.cost_s = 1}));
  ChangeRaw({{RowChange::Kind::kPut, Family::kOrder, OrderKey(Table::kEntries, -5, {9, 9}), {}},
             {RowChange::Kind::kPut, Family::kOrder, OrderKey(Table::kEntries, -5, {1, 0}), {}}});
  Open();
  const auto page = store_->Cheapest(Table::kEntries, "", 9);
  ASSERT_EQ(page->rows.size(), 1u);
  EXPECT_EQ(page->rows[0].key, (Digest{1, 0}));
  EXPECT_EQ(RawRows(Family::kOrder).size(), 1u);
}

TEST_F(StoreFault, DamageReportsAreBounded) {
  options_.damages_max = 3;
  Open();
  for (uint32_t i = 0; i < 6; ++i) Fill(100, i);
  std::vector<RowChange> changes;
  const auto rows = RawRows(Family::kArtifacts);
  for (const auto& [key, row] : rows) {
    changes.push_back({RowChange::Kind::kPut, Family::kArtifacts, key, Bytes(row).first(20)});
  }
  ChangeRaw(changes);
  Open();
  for (uint32_t i = 0; i < 6; ++i) {
    clock_.AdvanceSeconds(1);
    EXPECT_FALSE(store_->Get(Table::kArtifacts, DigestOf(SeededValue(100, i))));
  }
  std::vector<Digest> reported;
  ASSERT_TRUE(store_->ForEachDamaged([&](const Damage& damage) {
    reported.push_back(damage.key);
    return true;
  }));
  ASSERT_EQ(reported.size(), 3u);
  EXPECT_EQ(reported[0], DigestOf(SeededValue(100, 3)));
}

/// All files of the database except the log for people.
std::vector<std::string> DatabaseFiles(const std::string& db) {
  std::vector<std::string> files;
  const std::vector<std::string> names = RealFilesystem().List(db).value();
  for (const std::string& name : names) {
    if (!name.starts_with("LOG") && name != "LOCK") files.push_back(name);
  }
  return files;
}

/// After damage to a file: the store opens, gives right bytes or none, and takes new ones once
/// it has been opened again.
class FileDamage : public StoreFault {
 protected:
  void Prepare() {
    Open();
    for (uint32_t i = 0; i < 4; ++i) names_.push_back(Fill(300 + i * 3 * kChunk, i));
    ASSERT_TRUE(store_->Compact({}));
    // These are in files of their own.
    for (uint32_t i = 4; i < 8; ++i) names_.push_back(Fill(300 + (i - 4) * 3 * kChunk, i));
    Close();
    std::filesystem::copy(path_, dir_ / "good", std::filesystem::copy_options::recursive);
  }
  void Restore() {
    Close();
    std::filesystem::remove_all(path_);
    std::filesystem::copy(dir_ / "good", path_, std::filesystem::copy_options::recursive);
    ASSERT_EQ(::chmod(path_.c_str(), 0700), 0);
  }
  size_t CountReadable() {
    size_t readable = 0;
    for (uint32_t i = 0; i < names_.size(); ++i) {
      const Result<Value> got = store_->Get(Table::kArtifacts, names_[i]);
      if (got) {
        EXPECT_EQ(DigestOf(got->bytes), names_[i]);
        ++readable;
      } else {
        EXPECT_THAT(got.error().code(), AnyOf(Code::kNotFound, Code::kCorrupt, Code::kUnavailable))
            << got.error().ToText();
      }
    }
    return readable;
  }
  void ExpectUsable(const std::string& what) {
    SCOPED_TRACE(what);
    Open();
    if (store_ == nullptr) return;
    CountReadable();
    const Buffer value = SeededValue(2 * kChunk, 99);
    if (!store_->Put(Table::kArtifacts, DigestOf(value), value, {})) {
      Open();
      const auto put = store_->Put(Table::kArtifacts, DigestOf(value), value, {.cost_s = 0});
      ASSERT_TRUE(put) << put.error().ToText();
    }
    EXPECT_EQ(store_->Get(Table::kArtifacts, DigestOf(value))->bytes, value);
  }

  std::vector<Digest> names_;
};

TEST_F(FileDamage, FlippedBitsNeverGiveWrongBytes) {
  Prepare();
  Open();
  ASSERT_EQ(CountReadable(), names_.size());
  Close();
  for (const std::string& name : DatabaseFiles(dir_ / "good/db")) {
    const uintmax_t size = std::filesystem::file_size(dir_ / ("good/db/" + name));
    for (int step = 0; step < 6 && size > 0; ++step) {
      Restore();
      std::fstream file(path_ + "/db/" + name, std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>((size - 1) * step / 5);
      file.seekg(at);
      const char byte = static_cast<char>(file.get() ^ 0x10);
      file.seekp(at);
      file.put(byte);
      file.close();
      ExpectUsable(name + " flipped at " + std::to_string(at));
    }
  }
}

TEST_F(FileDamage, TruncatedFilesNeverGiveWrongBytes) {
  Prepare();
  for (const std::string& name : DatabaseFiles(dir_ / "good/db")) {
    const uintmax_t size = std::filesystem::file_size(dir_ / ("good/db/" + name));
    for (const uintmax_t left : {uintmax_t{0}, size / 2, size - std::min<uintmax_t>(size, 1)}) {
      Restore();
      std::filesystem::resize_file(path_ + "/db/" + name, left);
      ExpectUsable(name + " cut to " + std::to_string(left));
    }
  }
}

TEST_F(FileDamage, MissingFilesNeverGiveWrongBytes) {
  Prepare();
  for (const std::string& name : DatabaseFiles(dir_ / "good/db")) {
    Restore();
    std::filesystem::remove(path_ + "/db/" + name);
    ExpectUsable(name + " removed");
  }
}

TEST_F(StoreFault, NewerVersionIsMovedAsideWithItsReason) {
  Open();
  const Digest name = Fill(100, 1);
  Close();
  ASSERT_TRUE(RealFilesystem().WriteAtomic(path_ + "/VERSION", AsBytes("ingot-store 99\n")));
  Open();
  EXPECT_EQ(store_->Get(Table::kArtifacts, name).error().code(), Code::kNotFound);
  EXPECT_EQ(metrics_.Get(Counter::store_reset), 1u);
  ASSERT_EQ(Asides().size(), 1u);
  EXPECT_THAT(ReasonOf(Asides()[0]), HasSubstr("says version 99, this build reads 2"));
  EXPECT_TRUE(RealFilesystem().Exists(path_ + "/aside/" + Asides()[0] + "/db/CURRENT"));
  EXPECT_EQ(Fill(100, 1), name);
}

TEST_F(StoreFault, UnreadableOrMissingVersionIsMovedAside) {
  Open();
  for (const char* text :
       {"", "ingot-store", "ingot-store 1", "ingot-store 1x\n", "x\n", "ingot-store 99999999999\n"}) {
    Close();
    ASSERT_TRUE(RealFilesystem().WriteAtomic(path_ + "/VERSION", AsBytes(text)));
    metrics_.Reset();
    Open();
    EXPECT_EQ(metrics_.Get(Counter::store_reset), 1u) << text;
  }
  Close();
  ASSERT_TRUE(RealFilesystem().Remove(path_ + "/VERSION"));
  metrics_.Reset();
  Open();
  EXPECT_EQ(metrics_.Get(Counter::store_reset), 1u);
}

TEST_F(StoreFault, AsidesAreBounded) {
  options_.asides_max = 2;
  Open();
  for (int i = 0; i < 5; ++i) {
    Close();
    clock_.AdvanceSeconds(1);
    ASSERT_TRUE(RealFilesystem().WriteAtomic(path_ + "/VERSION", AsBytes("bad")));
    Open();
  }
  EXPECT_EQ(Asides().size(), 2u);
}

TEST_F(StoreFault, AsidesOfOneSecondKeepTheNewest) {
  options_.asides_max = 2;
  Open();
  for (int i = 0; i < 5; ++i) {
    Close();
    const std::string version = fmt::format("ingot-store {}\n", 10 + i);
    ASSERT_TRUE(RealFilesystem().WriteAtomic(path_ + "/VERSION", AsBytes(version)));
    Open();
  }
  ASSERT_EQ(Asides().size(), 2u);
  EXPECT_THAT(ReasonOf(Asides()[0]), HasSubstr("says version 13"));
  EXPECT_THAT(ReasonOf(Asides()[1]), HasSubstr("says version 14"));
}

TEST_F(StoreFault, NoteOfDamageMovesTheStoreAside) {
  Open();
  Close();
  ASSERT_TRUE(RealFilesystem().WriteAtomic(path_ + "/DAMAGED", AsBytes("compaction failed")));
  Open();
  ASSERT_EQ(Asides().size(), 1u);
  EXPECT_EQ(ReasonOf(Asides()[0]), "corrupt: compaction failed\n");
  Open();
  EXPECT_EQ(Asides().size(), 1u);
}

// Damage that RocksDB meets in its tables while the store is used: an empty one takes its place, without a restart.
TEST_F(StoreFault, DamagedTablesAreMovedAsideWhileInUse) {
  Open();
  const Digest lost = Fill(100, 1);
  ASSERT_TRUE(store_->Put(Table::kEntries, {1, 0}, SeededValue(100, 1), {.cost_s = 1}));
  Open();
  for (const auto& file : std::filesystem::directory_iterator(path_ + "/db")) {
    if (file.path().extension() != ".sst") continue;
    std::fstream table(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    table.write("damaged", 7);
  }
  const Status compacted = store_->Compact({});
  EXPECT_TRUE(compacted) << compacted.error().ToText();
  EXPECT_EQ(metrics_.Get(Counter::store_reset), 1u);
  ASSERT_EQ(Asides().size(), 1u);
  EXPECT_THAT(ReasonOf(Asides()[0]), HasSubstr("corrupt"));
  EXPECT_EQ(store_->Trouble(), "");
  EXPECT_EQ(store_->Get(Table::kArtifacts, lost).error().code(), Code::kNotFound);
  const Digest name = Fill(5 * kChunk, 2);
  EXPECT_EQ(store_->Get(Table::kArtifacts, name)->bytes, SeededValue(5 * kChunk, 2));
  Open();
  EXPECT_EQ(store_->Get(Table::kArtifacts, name)->bytes, SeededValue(5 * kChunk, 2));
  EXPECT_EQ(Asides().size(), 1u);
}

TEST_F(StoreFault, LiveHolderMakesItUnavailableAndIsNamed) {
  Open();
  const Digest name = Fill(100, 1);
  // Even a version this build cannot read stays where it is while somebody uses it.
  ASSERT_TRUE(RealFilesystem().WriteAtomic(path_ + "/VERSION", AsBytes("ingot-store 99\n")));
  const Result<std::unique_ptr<Store>> second = TryOpen();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  EXPECT_THAT(second.error().message(), HasSubstr("process " + std::to_string(::getpid())));
  EXPECT_TRUE(Asides().empty());
  EXPECT_TRUE(store_->Get(Table::kArtifacts, name));
}

TEST_F(StoreFault, NetworkDiskIsRefusedUnlessAllowed) {
  faulty_.SetNetwork(true);
  const Result<std::unique_ptr<Store>> refused = TryOpen();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("network file system"));
  options_.allow_network = true;
  EXPECT_TRUE(TryOpen());
}

TEST_F(StoreFault, FullDiskStopsWritesAndKeepsReads) {
  options_.disk_free_bytes_min = 1000;
  Open();
  const Digest kept = Fill(100, 1);
  faulty_.SetFreeBytes(1050);
  const auto put = store_->Put(Table::kEntries, kept, SeededValue(51, 2), {.cost_s = 0});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code(), Code::kExhausted);
  EXPECT_THAT(put.error().message(), HasSubstr("1050 bytes free"));
  EXPECT_EQ(metrics_.Get(Counter::store_full), 1u);
  EXPECT_THAT(store_->Describe(), HasSubstr("read only: the disk is full"));
  EXPECT_TRUE(store_->Get(Table::kArtifacts, kept));
  EXPECT_TRUE(store_->Delete(Table::kArtifacts, kept)) << "eviction must be able to make room";
  faulty_.SetFreeBytes(1051);
  EXPECT_TRUE(store_->Put(Table::kEntries, kept, SeededValue(51, 2), {}));
  EXPECT_THAT(store_->Describe(), HasSubstr("writable"));
}

TEST_F(StoreFault, TooLargeAValueIsRefused) {
  options_.value_bytes_max = 10;
  Open();
  EXPECT_EQ(store_->Put(Table::kEntries, {1, 1}, SeededValue(11, 1), {}).error().code(), Code::kExhausted);
  EXPECT_TRUE(store_->Put(Table::kEntries, {1, 1}, SeededValue(10, 1), {}));
}

// Every call to the disk fails once, in every way: opening says so, and loses nothing.
TEST_F(StoreFault, AnyFailedCallWhileOpeningLosesNothing) {
  Open();
  const Digest name = Fill(100, 1);
  Close();
  for (const int number : {EACCES, ENOSPC, EIO, EROFS}) {
    bool clean = false;
    for (uint64_t nth = 1; !clean; ++nth) {
      ASSERT_LT(nth, 50u);
      faulty_.FailCall(nth, number);
      const Result<std::unique_ptr<Store>> store = TryOpen();
      clean = faulty_.calls() < nth;
      if (store) continue;
      EXPECT_THAT(store.error().code(), AnyOf(Code::kUnavailable, Code::kExhausted)) << store.error().ToText();
    }
  }
  faulty_.FailCall(0, 0);
  Open();
  EXPECT_TRUE(store_->Get(Table::kArtifacts, name));
  EXPECT_TRUE(Asides().empty());
}

// Also while a fresh store is made, and while an unreadable one is moved aside.
TEST_F(StoreFault, AnyFailedCallWhileMakingOrMovingCanBeRepeated) {
  for (const bool unreadable : {false, true}) {
    bool clean = false;
    for (uint64_t nth = 1; !clean; ++nth) {
      ASSERT_LT(nth, 50u);
      if (unreadable) {
        faulty_.FailCall(0, 0);
        Open();
        Close();
        ASSERT_TRUE(RealFilesystem().WriteAtomic(path_ + "/VERSION", AsBytes("ingot-store 7\n")));
      } else {
        std::filesystem::remove_all(path_);
      }
      faulty_.FailCall(nth, EIO);
      Ignore(TryOpen(), "what matters is the next attempt");
      clean = faulty_.calls() < nth;
      faulty_.FailCall(0, 0);
      Open();
      ASSERT_NE(store_, nullptr) << nth;
      EXPECT_TRUE(store_->Get(Table::kArtifacts, Fill(100, 1)));
      Close();
    }
  }
}

TEST_F(StoreFault, NoPermissionIsUnavailable) {
  ASSERT_TRUE(RealFilesystem().MakeDirs(dir_ / "closed"));
  ASSERT_EQ(::chmod((dir_ / "closed").c_str(), 0500), 0);
  const bool root = ::geteuid() == 0;
  if (root) ::setfsuid(65534);
  const Result<std::unique_ptr<Store>> store = OpenStore(dir_ / "closed/store", options_);
  if (root) ::setfsuid(0);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kUnavailable);
  EXPECT_THAT(store.error().message(), HasSubstr("Permission denied"));
}

TEST_F(StoreFault, FileInPlaceOfTheDirectoryIsUnavailable) {
  ASSERT_TRUE(RealFilesystem().WriteAtomic(path_, AsBytes("x")));
  EXPECT_EQ(TryOpen().error().code(), Code::kUnavailable);
}

TEST_F(StoreFault, WhatACrashLeftOfAnAtomicWriteIsRemoved) {
  ASSERT_TRUE(RealFilesystem().MakeDirs(path_));
  ASSERT_TRUE(RealFilesystem().WriteAtomic(path_ + "/VERSION.1234.0.tmp", AsBytes("ingot-st")));
  ASSERT_TRUE(TryOpen());
  EXPECT_FALSE(RealFilesystem().Exists(path_ + "/VERSION.1234.0.tmp"));
}

TEST_F(StoreFault, DirectoryThatAGroupMayReadIsRefused) {
  ASSERT_TRUE(TryOpen());
  ASSERT_EQ(::chmod(path_.c_str(), 0770), 0);
  const auto store = TryOpen();
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kUnavailable);
  EXPECT_THAT(store.error().message(), HasSubstr("run chmod 700"));
}

TEST_F(StoreFault, LinkInPlaceOfTheLockIsNotFollowed) {
  ASSERT_TRUE(RealFilesystem().MakeDirs(path_));
  ASSERT_TRUE(RealFilesystem().WriteAtomic(dir_ / "victim", AsBytes("mine")));
  ASSERT_EQ(::symlink((dir_ / "victim").c_str(), (path_ + "/LOCK").c_str()), 0);
  EXPECT_EQ(TryOpen().error().code(), Code::kUnavailable);
  EXPECT_EQ(AsText(*RealFilesystem().Read(dir_ / "victim", 100)), "mine");
}

TEST_F(StoreFault, EmptyDirectoryNameGivesAMemoryStore) {
  const Result<std::unique_ptr<Store>> store = OpenStore("", StoreOptions());
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Put(Table::kEntries, {1, 1}, AsBytes("x"), {}));
  EXPECT_THAT((*store)->Describe(), HasSubstr("memory"));
}

/// In a child: writes values and reports each that was acknowledged, until killed.
[[noreturn]] void WriteUntilKilled(const std::string& path, const StoreOptions& options, int pipe) {
  Result<std::unique_ptr<Store>> store = OpenStore(path, options);
  if (!store) ::_exit(1);
  for (uint32_t seed = 0;; ++seed) {
    const Buffer value = SeededValue(1 + (seed % 4) * 5 * kChunk, seed);
    if (!(*store)->Put(Table::kArtifacts, DigestOf(value), value, {})) ::_exit(2);
    if (::write(pipe, &seed, sizeof seed) != sizeof seed) ::_exit(3);
  }
}

TEST_F(StoreFault, KilledWriterLosesNothingAcknowledged) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) WriteUntilKilled(path_, options_, pipe[1]);
  ::close(pipe[1]);
  uint32_t acknowledged = 0;
  uint32_t seed = 0;
  while (acknowledged < 40 && ::read(pipe[0], &seed, sizeof seed) == sizeof seed) ++acknowledged;
  ::kill(child, SIGKILL);
  while (::read(pipe[0], &seed, sizeof seed) == sizeof seed) ++acknowledged;
  ::close(pipe[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
  Open();
  EXPECT_TRUE(Asides().empty());
  for (seed = 0; seed < acknowledged; ++seed) {
    const Buffer value = SeededValue(1 + (seed % 4) * 5 * kChunk, seed);
    const Result<Value> got = store_->Get(Table::kArtifacts, DigestOf(value));
    ASSERT_TRUE(got) << seed << ": " << got.error().ToText();
  }
  EXPECT_TRUE(RawRows(Family::kPending).empty());
}

}  // namespace
}  // namespace ingot::cache
