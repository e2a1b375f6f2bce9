// SPDX-License-Identifier: Apache-2.0
#include "proto/capture_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/digest.h"

namespace ingot::proto {
namespace {

CompileT Capture(const std::string& function, size_t bytes) {
  CompileT capture;
  capture.key = std::make_unique<EntryKeyT>();
  capture.key->components.push_back(std::make_unique<ComponentT>());
  capture.key->components[0]->name = function;
  capture.recording.assign(bytes, 7);
  capture.dynamic = false;
  return capture;
}

std::vector<CompileT> Two() {
  std::vector<CompileT> captures;
  captures.push_back(Capture("f", 13));
  captures.push_back(Capture("g", 64));
  return captures;
}

/// The file with a digest that fits, as a hostile writer would make it.
Buffer ResealedCapture(Buffer file) {
  Hasher hasher;
  hasher.AddField(Bytes(file).first(48));
  hasher.AddField(Bytes(file).subspan(64));
  const Digest digest = hasher.Finish();
  std::memcpy(file.data() + 48, &digest.low, 8);
  std::memcpy(file.data() + 56, &digest.high, 8);
  return file;
}

TEST(CaptureFile, GivesBackWhatWasSaved) {
  const auto captures = OpenCaptures(PackCaptures(Two()));
  ASSERT_TRUE(captures) << captures.error().ToText();
  ASSERT_EQ(captures->size(), 2u);
  EXPECT_EQ((*captures)[0].key->components[0]->name, "f");
  EXPECT_EQ((*captures)[1].recording.size(), 64u);
  EXPECT_FALSE((*captures)[1].dynamic);
  EXPECT_TRUE(OpenCaptures(PackCaptures({}))->empty());
}

TEST(CaptureFile, RefusesEveryTruncation) {
  const Buffer file = PackCaptures(Two());
  for (size_t size = 0; size < file.size(); ++size) {
    const auto captures = OpenCaptures(Bytes(file).first(size));
    ASSERT_FALSE(captures) << size;
    EXPECT_EQ(captures.error().code(), Code::kCorrupt);
  }
}

TEST(CaptureFile, RefusesEveryFlippedBit) {
  const Buffer file = PackCaptures(Two());
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    Buffer flipped = file;
    flipped[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    EXPECT_FALSE(OpenCaptures(flipped)) << bit;
  }
}

TEST(CaptureFile, SurvivesEveryFlippedBitUnderADigestThatFits) {
  const Buffer file = PackCaptures(Two());
  for (size_t bit = 64 * 8; bit < file.size() * 8; ++bit) {
    Buffer flipped = file;
    flipped[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    const auto captures = OpenCaptures(ResealedCapture(std::move(flipped)));
    if (captures) {
      EXPECT_EQ(captures->size(), 2u);
    }
  }
}

TEST(CaptureFile, NamesAnotherBuild) {
  Buffer file = PackCaptures(Two());
  file[16] ^= 1;
  const auto captures = OpenCaptures(file);
  ASSERT_FALSE(captures);
  EXPECT_EQ(captures.error().code(), Code::kIncompatible);
}

}  // namespace
}  // namespace ingot::proto
