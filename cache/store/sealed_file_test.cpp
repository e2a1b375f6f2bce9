// SPDX-License-Identifier: Apache-2.0
#include "cache/store/sealed_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace ingot::cache {
namespace {

constexpr uint64_t kSizes[] = {0, 1, 4096, 4097, 3 << 20};

Buffer Pattern(uint64_t bytes) {
  Buffer out(bytes);
  std::iota(out.begin(), out.end(), static_cast<uint8_t>(bytes % 251));
  return out;
}

/// How many mappings of sealed files this process has.
size_t Mapped() {
  std::ifstream maps("/proc/self/maps");
  size_t found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find("memfd:ingot-artifact") != line.npos;
  return found;
}

void ExpectSealed(const SealedFile& file, const Buffer& bytes) {
  EXPECT_EQ(file.size(), bytes.size());
  struct stat facts;
  ASSERT_EQ(fstat(file.fd(), &facts), 0);
  EXPECT_EQ(static_cast<uint64_t>(facts.st_size), bytes.size());
  EXPECT_TRUE(std::ranges::equal(file.bytes(), bytes));
  EXPECT_TRUE(proto::CheckSealed(file.fd()));
  const uint8_t one = 1;
  EXPECT_EQ(pwrite(file.fd(), &one, 1, 0), -1);
  EXPECT_NE(ftruncate(file.fd(), static_cast<off_t>(bytes.size() + 1)), 0);
}

TEST(SealedFile, HoldsWhatItsRoomWasFilledWith) {
  for (const uint64_t size : kSizes) {
    SCOPED_TRACE(size);
    const Buffer bytes = Pattern(size);
    Result<SealedRoom> room = SealedRoom::Make(size);
    ASSERT_TRUE(room) << room.error().ToText();
    EXPECT_EQ(room->size(), size);
    SealedRoom moved = std::move(room).value();
    if (size != 0) std::copy(bytes.begin(), bytes.end(), moved.data());
    const Result<SealedRef> file = std::move(moved).Seal();
    ASSERT_TRUE(file) << file.error().ToText();
    ExpectSealed(**file, bytes);
  }
}

TEST(SealedFile, HoldsWhatWasWrittenInPieces) {
  for (const uint64_t size : kSizes) {
    SCOPED_TRACE(size);
    const Buffer bytes = Pattern(size);
    Result<SealedWriter> writer = SealedWriter::Make();
    ASSERT_TRUE(writer) << writer.error().ToText();
    for (size_t done = 0; done < size; done += 1000) {
      ASSERT_TRUE(writer->Add(Bytes(bytes).subspan(done, std::min<size_t>(1000, size - done))));
    }
    EXPECT_EQ(Mapped(), 0u);
    const Result<SealedRef> file = std::move(*writer).Seal();
    ASSERT_TRUE(file) << file.error().ToText();
    ExpectSealed(**file, bytes);
  }
}

TEST(SealedFile, CopiesAndAdopts) {
  for (const uint64_t size : kSizes) {
    SCOPED_TRACE(size);
    const Buffer bytes = Pattern(size);
    const Result<SealedRef> copy = SealedFile::Copy(bytes);
    ASSERT_TRUE(copy) << copy.error().ToText();
    ExpectSealed(**copy, bytes);
    const Result<SealedRef> adopted = SealedFile::Adopt(UniqueFd(dup((*copy)->fd())), size);
    EXPECT_EQ(adopted.has_value(), size != 0);
    if (adopted) ExpectSealed(**adopted, bytes);
    EXPECT_FALSE(SealedFile::Adopt(UniqueFd(dup((*copy)->fd())), size + 1));
  }
  EXPECT_FALSE(SealedFile::Adopt(UniqueFd(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING)), 1));
}

TEST(SealedFile, IsMappedOnceItIsReadAndNoLongerThanItLives) {
  ASSERT_EQ(Mapped(), 0u);
  for (const uint64_t size : {100, 1 << 20}) {
    Result<SealedRoom> room = SealedRoom::Make(size);
    ASSERT_TRUE(room);
    std::fill_n(room->data(), size, uint8_t{7});
    Result<SealedRef> file = std::move(*room).Seal();
    ASSERT_TRUE(file);
    EXPECT_EQ(Mapped(), 0u);
    std::vector<std::thread> reading;
    std::vector<const uint8_t*> places(8);
    for (const uint8_t*& place : places) {
      reading.emplace_back([&place, &file] { place = (*file)->bytes().data(); });
    }
    for (std::thread& one : reading) one.join();
    EXPECT_EQ(std::ranges::count(places, places.front()), std::ssize(places));
    EXPECT_EQ(Mapped(), 1u);
    EXPECT_TRUE(std::ranges::all_of((*file)->bytes(), [](uint8_t byte) { return byte == 7; }));
    file = SealedRef();
    EXPECT_EQ(Mapped(), 0u);
  }
}

TEST(SealedFile, WhatIsTooLargeIsRefused) {
  const auto room = SealedRoom::Make(uint64_t{1} << 63);
  ASSERT_FALSE(room);
  EXPECT_EQ(room.error().code(), Code::kExhausted);
}

}  // namespace
}  // namespace ingot::cache
