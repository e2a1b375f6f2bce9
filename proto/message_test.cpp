// SPDX-License-Identifier: Apache-2.0
#include "proto/message.h"

#include <gtest/gtest.h>

#include "proto/artifact_generated.h"
#include "proto/graph_generated.h"
#include "proto/record_generated.h"
#include "proto/worker_generated.h"

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

/// A message in which everything that an offset leads to is there once, however often it is named.
class Aliased {
 public:
  Buffer Make(const flatbuffers::TypeTable& type) {
    text_ = builder_.CreateString(std::string(1000, 'x')).o;
    // Read as numbers of eight bytes, its elements are aligned.
    numbers_ = builder_.CreateVector(std::vector<int64_t>(1, 0)).o;
    builder_.Finish(flatbuffers::Offset<void>(Table(type)));
    return Buffer(builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize());
  }

 private:
  using Place = flatbuffers::uoffset_t;

  Place Part(const flatbuffers::TypeCode& code, const flatbuffers::TypeTable* type) {
    const bool is_text = code.base_type == flatbuffers::ET_STRING;
    const bool is_table = code.base_type == flatbuffers::ET_SEQUENCE && type->st == flatbuffers::ST_TABLE;
    if (!is_text && !is_table) return code.is_repeating ? numbers_ : 0;
    const Place one = is_text ? text_ : Table(*type);
    if (!code.is_repeating) return one;
    return builder_.CreateVector(std::vector<flatbuffers::Offset<void>>(100, one)).o;
  }

  Place Table(const flatbuffers::TypeTable& type) {
    std::vector<Place> parts(type.num_elems);
    for (size_t i = 0; i < type.num_elems; ++i) {
      const flatbuffers::TypeCode code = type.type_codes[i];
      parts[i] = Part(code, code.sequence_ref < 0 ? nullptr : type.type_refs[code.sequence_ref]());
    }
    const Place start = builder_.StartTable();
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == 0) continue;
      builder_.AddOffset(flatbuffers::FieldIndexToOffset(static_cast<flatbuffers::voffset_t>(i)),
                         flatbuffers::Offset<void>(parts[i]));
    }
    return builder_.EndTable(start);
  }

  flatbuffers::FlatBufferBuilder builder_;
  Place text_ = 0;
  Place numbers_ = 0;
};

template <typename T>
class EachMessage : public testing::Test {};
using Messages =
    testing::Types<Hello, HelloReply, Lookup, LookupReply, Compile, CompileReply, Query, EntryRecord, GraphRecord,
                   Tombstones, WorkloadRecord, WorkerHello, Manifest, Recording, TuningRecord, Findings>;
TYPED_TEST_SUITE(EachMessage, Messages);

TYPED_TEST(EachMessage, IsRefusedWhereItsOffsetsMeet) {
  const Buffer bytes = Aliased().Make(*TypeParam::MiniReflectTypeTable());
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), 64, 10'000'000);
  ASSERT_TRUE(verifier.VerifyBuffer<TypeParam>(nullptr)) << "each part alone is well formed";
  EXPECT_EQ(ReadMessage<TypeParam>(bytes), nullptr);
  // A reader of what was built with shared strings says how much of that it takes.
  EXPECT_NE(ReadMessage<TypeParam>(bytes, {.shares_max = 1'000'000}), nullptr);
}

// Eight bytes in a vector of tables without fields are hundreds in the object.
TEST(ReadMessage, RefusesManyEmptyTables) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<Variant>> variants;
  for (int i = 0; i < 100'000; ++i) variants.push_back(CreateVariant(builder));
  builder.Finish(CreateLookupReply(builder, true, 0, 0, builder.CreateVector(variants)));
  const Buffer bytes(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  EXPECT_EQ(ReadMessage<LookupReply>(bytes), nullptr);
}

TEST(ReadMessage, TakesWhatIsPackedHoweverLarge) {
  LookupReplyT reply;
  for (int i = 0; i < 20'000; ++i) {
    VariantT& variant = *reply.variants.emplace_back(std::make_unique<VariantT>());
    variant.proven = {1, 2, 3};
    variant.dependencies.push_back(std::make_unique<DependencyT>());
    variant.fixed = {"", "a", ""};
  }
  EXPECT_NE(ReadMessage<LookupReply>(PackMessage<LookupReply>(reply)), nullptr);
}

// Whatever the bytes are, the walk that comes before the verifier reads none beside them.
TEST(IsBounded, ReadsNothingOutsideOfDamagedBytes) {
  LookupReplyT reply;
  reply.why = "function name: f -> g";
  reply.variants.push_back(std::make_unique<VariantT>());
  reply.variants[0]->fixed = {"a", "b"};
  const Buffer whole = PackMessage<LookupReply>(reply);
  for (size_t size = 4; size < whole.size(); ++size) {
    const std::vector<uint8_t> exact(whole.begin(), whole.begin() + static_cast<long>(size));
    IsBounded(exact, *LookupReply::MiniReflectTypeTable(), 1);
  }
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Buffer damaged = whole;
    damaged[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    if (const auto* read = ReadMessage<LookupReply>(damaged)) {
      LookupReplyT unpacked;
      read->UnPackTo(&unpacked);
    }
  }
}

}  // namespace
}  // namespace ingot::proto
