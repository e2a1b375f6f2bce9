// SPDX-License-Identifier: Apache-2.0
#include "proto/message.h"

#include <gtest/gtest.h>

#include "proto/graph_generated.h"

namespace ingot::proto {
namespace {

Buffer IntsMessage() {
  ArgT arg;
  arg.kind = ArgKind::IntList;
  arg.ints = {1, 2, 3};
  return PackMessage<Arg>(arg);
}

TEST(ReadMessage, GivesBackWhatWasPacked) {
  const Buffer bytes = IntsMessage();
  const Arg* const arg = ReadMessage<Arg>(bytes);
  ASSERT_NE(arg, nullptr);
  EXPECT_EQ(arg->ints()->Get(2), 3);
}

TEST(ReadMessage, RefusesBytesAtAnOddAddress) {
  const Buffer bytes = IntsMessage();
  Buffer shifted(4);
  shifted.insert(shifted.end(), bytes.begin(), bytes.end());
  EXPECT_EQ(ReadMessage<Arg>(Bytes(shifted).subspan(4)), nullptr);
}

// Offsets are relative: four bytes behind the first offset move all else, and 8-byte elements away
// from where they can be loaded. Tables and sizes of vectors stay aligned.
TEST(ReadMessage, RefusesElementsAtOddPlaces) {
  Buffer bytes = IntsMessage();
  const uint32_t root = LoadLittle<uint32_t>(bytes) + 4;
  std::memcpy(bytes.data(), &root, sizeof root);
  bytes.insert(bytes.begin() + 4, 4, 0);
  EXPECT_EQ(ReadMessage<Arg>(bytes), nullptr);
  bytes.insert(bytes.begin() + 4, 4, 0);
  const uint32_t moved = root + 4;
  std::memcpy(bytes.data(), &moved, sizeof moved);
  EXPECT_NE(ReadMessage<Arg>(bytes), nullptr) << "aligned again";
}

}  // namespace
}  // namespace ingot::proto
