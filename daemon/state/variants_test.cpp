// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/variants.h"

#include <gtest/gtest.h>

#include "tests/support/daemon/test_server.h"

namespace ingot::daemon {
namespace {

proto::CompileT RequestWith(const std::string& where, uint64_t digest) {
  proto::CompileT request;
  request.signature = {1, 2};
  AddDependency(request, "global", where, digest);
  return request;
}

NewVariant Exact(uint64_t graph) { return {.graph = {graph, 0}, .artifact = {graph, 1}, .artifact_bytes = 10}; }

TEST(AddVariant, JoinsEqualGraphsWhoseDependenciesAgree) {
  proto::EntryRecordT record;
  const Config config;
  AddVariant(record, RequestWith("a", 1), Exact(5), config, 100);
  AddVariant(record, RequestWith("b", 2), Exact(5), config, 101);
  ASSERT_EQ(record.variants.size(), 1u);
  EXPECT_EQ(record.variants[0]->variant->dependencies.size(), 2u);
  EXPECT_EQ(record.variants[0]->created, 100);
}

// All but the rows: a reply that leaves anything else out would be another variant.
TEST(WithoutDependencies, KeepsEverythingElse) {
  proto::VariantT variant;
  variant.kind = proto::VariantKind::Template;
  variant.graph_low = 1;
  variant.graph_high = 2;
  variant.artifact_low = 3;
  variant.artifact_high = 4;
  variant.artifact_bytes = 5;
  variant.descriptor = 6;
  variant.symbol_count = 1;
  variant.proven = {7, 8};
  variant.signature = {9};
  variant.range = "s0 >= 2";
  variant.fixed = {"why"};
  variant.agreed.push_back(std::make_unique<proto::ComparisonT>());
  const Buffer expected = proto::PackMessage<proto::Variant>(variant);
  variant.dependencies.push_back(std::make_unique<proto::DependencyT>());
  EXPECT_EQ(proto::PackMessage<proto::Variant>(*WithoutDependencies(variant)), expected);
}

proto::ComparisonT ComparisonAt(std::vector<int64_t> sizes, std::string why_not = "") {
  proto::ComparisonT comparison;
  comparison.when = 100;
  comparison.sizes = std::move(sizes);
  comparison.why_not = std::move(why_not);
  return comparison;
}

proto::EntryRecordT RecordOfTemplate() {
  proto::EntryRecordT record;
  NewVariant added = Exact(5);
  added.kind = proto::VariantKind::Template;
  added.symbol_count = 1;
  AddVariant(record, RequestWith("a", 1), added, Config(), 100);
  return record;
}

TEST(NoteComparison, KeepsEachSizeOnceAndTheNewestReason) {
  proto::EntryRecordT record = RecordOfTemplate();
  const auto& agreed = record.variants[0]->variant->agreed;
  const Digest artifact{5, 1};
  EXPECT_FALSE(NoteComparison(record, {6, 1}, ComparisonAt({4})));
  EXPECT_FALSE(NoteComparison(record, artifact, ComparisonAt({4, 4})));
  EXPECT_TRUE(NoteComparison(record, artifact, ComparisonAt({}, "weights")));
  EXPECT_TRUE(NoteComparison(record, artifact, ComparisonAt({}, "memory")));
  ASSERT_EQ(agreed.size(), 1u);
  EXPECT_EQ(agreed[0]->why_not, "memory");
  EXPECT_TRUE(NoteComparison(record, artifact, ComparisonAt({4})));
  EXPECT_TRUE(NoteComparison(record, artifact, ComparisonAt({8})));
  EXPECT_TRUE(NoteComparison(record, artifact, ComparisonAt({4})));
  ASSERT_EQ(agreed.size(), 2u);
  EXPECT_EQ(agreed[0]->sizes, std::vector<int64_t>{8});
  EXPECT_EQ(agreed[1]->sizes, std::vector<int64_t>{4});
  for (int64_t i = 0; i < 100; ++i) NoteComparison(record, artifact, ComparisonAt({i}));
  EXPECT_EQ(agreed.size(), 64u);
}

// It is a word about one artifact, by this machine.
TEST(NoteComparison, IsNeitherSharedNorTakenNorKeptForAnotherArtifact) {
  proto::EntryRecordT record = RecordOfTemplate();
  ASSERT_TRUE(NoteComparison(record, {5, 1}, ComparisonAt({4})));
  proto::StoredVariantT& stored = *record.variants[0];
  EXPECT_TRUE(WithoutOrigins(stored).variant->agreed.empty());
  proto::EntryRecordT other;
  ASSERT_TRUE(MergeVariant(other, stored, Config()));
  EXPECT_TRUE(other.variants[0]->variant->agreed.empty());
  EXPECT_EQ(WithoutDependencies(*stored.variant)->agreed.size(), 1u);
  ReplaceArtifact(stored, {7, 1}, 10);
  EXPECT_TRUE(stored.variant->agreed.empty());
  ASSERT_TRUE(NoteComparison(record, {7, 1}, ComparisonAt({4})));
  NewVariant again = Exact(5);
  again.kind = proto::VariantKind::Template;
  again.symbol_count = 1;
  AddVariant(record, RequestWith("a", 1), again, Config(), 101);
  EXPECT_TRUE(record.variants[0]->variant->agreed.empty());
}

// Another remainder is another range of one template; neither recording takes back what the other has proved.
TEST(AddVariant, JoinsTheRangesOfATemplate) {
  proto::EntryRecordT record;
  const Config config;
  const auto add = [&](const char* range) {
    NewVariant added = Exact(5);
    added.kind = proto::VariantKind::Template;
    added.symbol_count = 1;
    added.range = range;
    AddVariant(record, RequestWith("a", 1), added, config, 100);
    return record.variants.at(0)->variant->range;
  };
  EXPECT_EQ(add("s0 >= 2 and s0 % 2 == 1"), "s0 >= 2 and s0 % 2 == 1");
  EXPECT_EQ(add("s0 >= 4 and s0 % 2 == 0"), "s0 >= 2 and s0 % 2 == 1 or s0 >= 4 and s0 % 2 == 0");
  EXPECT_EQ(add("s0 >= 8 and s0 % 2 == 0"), "s0 >= 2 and s0 % 2 == 1 or s0 >= 4 and s0 % 2 == 0");
  EXPECT_EQ(add(""), "s0 >= 2 and s0 % 2 == 1 or s0 >= 4 and s0 % 2 == 0");
  EXPECT_EQ(record.variants.size(), 1u);
}

NewVariant TemplateOf(int64_t size, int64_t other_size, std::shared_ptr<const proto::VariantT> other) {
  NewVariant added = Exact(7);
  added.kind = proto::VariantKind::Template;
  added.symbol_count = 1;
  added.proven = {size};
  added.other_proven = {other_size};
  added.other = std::move(other);
  return added;
}

// A template of two recordings serves the sizes of both where what either saw still holds.
TEST(AddVariant, KeepsWhatBothRecordingsOfATemplateSaw) {
  proto::EntryRecordT record;
  const Config config;
  AddVariant(record, RequestWith("scales[3]", 1), Exact(5), config, 100);
  const auto first = std::make_shared<const proto::VariantT>(*record.variants[0]->variant);
  AddVariant(record, RequestWith("scales[4]", 1), TemplateOf(4, 3, first), config, 101);
  ASSERT_EQ(record.variants.size(), 2u);
  const proto::VariantT& both = *record.variants[1]->variant;
  EXPECT_EQ(both.proven, (std::vector<int64_t>{3, 4}));
  ASSERT_EQ(both.dependencies.size(), 2u);
}

TEST(AddVariant, ProvesNoSizeInAStateThatIsAnother) {
  proto::EntryRecordT record;
  const Config config;
  AddVariant(record, RequestWith("scales[3]", 2), Exact(5), config, 100);
  const auto other = std::make_shared<const proto::VariantT>(*record.variants[0]->variant);
  AddVariant(record, RequestWith("scales[3]", 1), TemplateOf(4, 5, nullptr), config, 101);
  AddVariant(record, RequestWith("scales[4]", 1), TemplateOf(6, 3, other), config, 102);
  ASSERT_EQ(record.variants.size(), 2u);
  EXPECT_EQ(record.variants[1]->variant->proven, (std::vector<int64_t>{5, 4, 6}));
}

TEST(AddVariant, KeepsEqualGraphsApartWhoseDependenciesContradict) {
  proto::EntryRecordT record;
  const Config config;
  AddVariant(record, RequestWith("a", 1), Exact(5), config, 100);
  AddVariant(record, RequestWith("a", 2), Exact(5), config, 101);
  EXPECT_EQ(record.variants.size(), 2u);
}

TEST(AddVariant, KeepsApartWhatHasOneObjectWhereTheOtherHasTwo) {
  const Config config;
  for (const bool one_first : {true, false}) {
    proto::EntryRecordT record;
    proto::CompileT two = RequestWith("a", 1);
    AddDependency(two, "class", "net:Net$forward", 7);
    proto::CompileT one = two;
    AddDependency(one, "same", "net:Net$forward is function", 9);
    AddVariant(record, one_first ? one : two, Exact(5), config, 100);
    AddVariant(record, one_first ? two : one, Exact(5), config, 101);
    EXPECT_EQ(record.variants.size(), 2u);
  }
}

TEST(AddVariant, KeepsApartWhatAClientHadToReject) {
  proto::EntryRecordT record;
  const Config config;
  proto::CompileT first = RequestWith("a", 1);
  AddDependency(first, "global", "gone", 7);
  AddVariant(record, first, Exact(5), config, 100);
  proto::CompileT second = RequestWith("a", 1);
  second.rejected = "global gone: not found in this process";
  AddVariant(record, second, Exact(5), config, 101);
  ASSERT_EQ(record.variants.size(), 2u);
  EXPECT_EQ(record.variants[1]->variant->dependencies.size(), 1u);
  // What it has stored itself serves it again.
  AddVariant(record, second, Exact(5), config, 102);
  EXPECT_EQ(record.variants.size(), 2u);
}

TEST(AddVariant, DropsTheOldestExactVariantOverTheLimit) {
  proto::EntryRecordT record;
  Config config;
  config.variants_max = 2;
  NewVariant both = Exact(1);
  both.kind = proto::VariantKind::Template;
  both.symbol_count = 1;
  both.proven = {4, 8};
  AddVariant(record, RequestWith("a", 1), both, config, 100);
  AddVariant(record, RequestWith("a", 1), Exact(2), config, 101);
  AddVariant(record, RequestWith("a", 1), Exact(3), config, 102);
  ASSERT_EQ(record.variants.size(), 2u);
  EXPECT_EQ(record.variants[0]->variant->graph_low, 1u);
  EXPECT_EQ(record.variants[1]->variant->graph_low, 3u);
}

TEST(AddVariant, AddsAProvenSizeOnceAndUpToTheLimit) {
  proto::EntryRecordT record;
  Config config;
  config.proven_max = 2;
  NewVariant both = Exact(1);
  both.kind = proto::VariantKind::Template;
  both.symbol_count = 2;
  both.proven = {4, 8};
  AddVariant(record, RequestWith("a", 1), both, config, 100);
  AddVariant(record, RequestWith("a", 1), both, config, 100);
  both.proven = {5, 8};
  AddVariant(record, RequestWith("a", 1), both, config, 100);
  both.proven = {6, 8};
  AddVariant(record, RequestWith("a", 1), both, config, 100);
  EXPECT_EQ(record.variants[0]->variant->proven, (std::vector<int64_t>{4, 8, 5, 8}));
}

}  // namespace
}  // namespace ingot::daemon
