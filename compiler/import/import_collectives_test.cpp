// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/import/import.h"
#include "compiler/ir/text.h"
#include "compiler/ops/collectives.h"
#include "tests/support/recording_builder.h"

namespace ingot::compiler {
namespace {

using namespace ingot::support;  // NOLINT: the builder's one-letter makers
using ::testing::HasSubstr;

constexpr const char* kAllReduce = "_c10d_functional::all_reduce";
constexpr const char* kWait = "_c10d_functional::wait_tensor";

std::string Imported(const Buffer& recording) {
  const Result<Graph> graph = ImportRecording(recording);
  if (!graph) return graph.error().ToText();
  const std::string text = Print(*graph);
  return text.substr(text.find(") {\n") + 4);
}

/// x summed over group 0; the sum is in flight.
struct Sum {
  RecordingBuilder r;
  uint32_t x = r.Input("x", DType::kF32, {4});
  uint32_t y = r.Fresh(DType::kF32, {4});

  explicit Sum(const std::string& group = "group 0") {
    // The flag is what a client says; communication is opaque whatever it says.
    r.Step(kAllReduce, Args(V(x), Text("sum"), Text(group)), Args(V(y)));
  }
  void Wait(uint32_t id) { r.Step(kWait, Args(V(id)), Args(V(id))); }
  uint32_t Silu(uint32_t id) {
    const uint32_t out = r.Fresh(DType::kF32, {4});
    r.Step("aten::silu", Args(V(id)), Args(V(out)));
    return out;
  }
};

TEST(ImportCollectives, MakesTheWaitedTensorANewValue) {
  Sum sum;
  const uint32_t h = sum.Silu(sum.x);
  sum.Wait(sum.y);
  sum.Wait(sum.y);  // Once is enough.
  EXPECT_EQ("\n" + Imported(sum.r.Finish({sum.Silu(sum.y), h, sum.y})), R"(
  %0 = _c10d_functional.all_reduce(%x, "sum", "group 0") {opaque} : f32[4]
  %1 = aten.silu(%x) : f32[4]
  %2 = _c10d_functional.wait_tensor(%0, [%x]) {opaque} : f32[4]
  %3 = aten.silu(%2) : f32[4]
  return %3, %1, %2
}
)");
}

TEST(ImportCollectives, RefusesWhatEagerWouldRaceOn) {
  {
    Sum sum;
    const uint32_t early = sum.Silu(sum.y);
    sum.Wait(sum.y);
    EXPECT_THAT(Imported(sum.r.Finish({early})), HasSubstr("aten.silu uses the result of a collective"));
  }
  {
    Sum sum;
    EXPECT_THAT(Imported(sum.r.Finish({sum.x})), HasSubstr("starts a collective that nothing waits for"));
  }
  {
    Sum sum;
    EXPECT_THAT(Imported(sum.r.Finish({sum.y})), HasSubstr("nothing waits for"));
  }
  {
    Sum sum;
    const uint32_t view = sum.r.View("aten::view", Args(V(sum.y), IntList({2, 2})), {2, 2}, {2, 1});
    sum.Wait(view);
    EXPECT_THAT(Imported(sum.r.Finish({view})), HasSubstr("uses the result of a collective"));
  }
}

TEST(ImportCollectives, RefusesWhatBeganOutside) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4});
  r.Step(kWait, Args(V(x)), Args(V(x)));
  EXPECT_THAT(Imported(r.Finish({x})), HasSubstr("may wait for a collective that began outside"));
}

TEST(ImportCollectives, IgnoresAWaitForWhatNoCollectiveMade) {
  Sum sum;
  const uint32_t h = sum.Silu(sum.x);
  sum.Wait(h);
  sum.Wait(sum.y);
  EXPECT_THAT(Imported(sum.r.Finish({h, sum.y})), HasSubstr("return %1, %2"));
}

TEST(ImportCollectives, RefusesGroupsThatAreNoSlots) {
  for (const char* group :
       {"0", "group", "group ", "group 64", "group -1", "group 01", "group 0x", "group 99999999999"}) {
    Sum sum(group);
    sum.Wait(sum.y);
    EXPECT_THAT(Imported(sum.r.Finish({sum.y})), HasSubstr("names its process group by no slot")) << group;
  }
  Sum last("group 63");
  last.Wait(last.y);
  const Result<Graph> graph = ImportRecording(last.r.Finish({last.y}));
  ASSERT_TRUE(graph) << graph.error().ToText();
  EXPECT_EQ(GroupCount(*graph), 64u);
}

TEST(ImportCollectives, RefusesOtherCommunication) {
  for (const char* op :
       {"c10d::barrier", "_c10d_functional::isend", "_c10d_functional::all_reduce_", "symm_mem::one_shot"}) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {4});
    const uint32_t y = r.Fresh(DType::kF32, {4});
    r.Step(op, Args(V(x)), Args(V(y)));
    EXPECT_THAT(Imported(r.Finish({y})), HasSubstr("cannot be replayed")) << op;
  }
}

TEST(ImportCollectives, AreNotTheSameInOtherGroups) {
  const auto digest = [](const std::string& group) {
    Sum sum(group);
    sum.Wait(sum.y);
    const Result<Graph> graph = ImportRecording(sum.r.Finish({sum.y}));
    EXPECT_TRUE(graph);
    return GraphDigest(*graph);
  };
  EXPECT_EQ(digest("group 0"), digest("group 0"));
  EXPECT_NE(digest("group 0"), digest("group 1"));
}

TEST(VerifyCollectives, NamesWhatIsWrong) {
  const auto verify = [](const std::string& nodes, const std::string& result) {
    const auto graph = Parse("graph @f(%x: f32[4], %z: f32[4]) {\n" + nodes + "\n return " + result + "\n}");
    return graph ? std::string("fine") : graph.error().message();
  };
  const std::string start = "%r = _c10d_functional.all_reduce(%x, \"sum\", \"group 0\") {opaque} : f32[4]\n";
  const std::string wait = "%w = _c10d_functional.wait_tensor(%r, [%x]) {opaque} : f32[4]\n";
  EXPECT_EQ(verify(start + wait, "%w"), "fine");
  EXPECT_THAT(verify(start + wait, "%r"), HasSubstr("returns the result of a collective"));
  EXPECT_THAT(verify(start + wait + "write %z = %r", "%w"), HasSubstr("stores the result of a collective"));
  EXPECT_THAT(verify(start + "%w = _c10d_functional.wait_tensor(%r, [%z]) {opaque} : f32[4]", "%w"),
              HasSubstr("does not hold what its collective may still read"));
  EXPECT_THAT(verify("%w = _c10d_functional.wait_tensor(%x, [%x]) {opaque} : f32[4]", "%w"),
              HasSubstr("is no collective of the graph"));
  EXPECT_THAT(verify("%r = _c10d_functional.all_reduce(%x, \"sum\", \"group 0\") : f32[4]\n" + wait, "%w"),
              HasSubstr("not opaque"));
}

}  // namespace
}  // namespace ingot::compiler
