// SPDX-License-Identifier: Apache-2.0
// Recordings, as clients send them, through the importer.
#include "compiler/import/generalize.h"
#include "compiler/import/import.h"
#include "compiler/import/import_pattern.h"
#include "compiler/ir/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/recording_builder.h"

namespace ingot::fuzz {
namespace {

using namespace support;  // NOLINT: the words of the builder
using guards::DType;

Buffer Pointwise() {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4, 16});
  const uint32_t w = r.Weight("self.w", DType::kF32, {16});
  const uint32_t c = r.Constant("c", DType::kI64, {2}, std::string(16, '\1'));
  const uint32_t y = r.Fresh(DType::kF32, {4, 16});
  const uint32_t z = r.Fresh(DType::kF32, {4, 16});
  r.Step("aten::add.Tensor", Args(V(x), V(w), NumberOf(int64_t{1})), Args(V(y)));
  r.Step("aten::mul.Tensor", Args(V(y), NumberOf(2.5)), Args(V(z)));
  return r.Finish({z, c, x});
}

Buffer ViewsAndWrites() {
  RecordingBuilder r("model.decode");
  const uint32_t cache = r.Input("cache", DType::kF32, {8, 4});
  const uint32_t x = r.Input("x", DType::kF32, {1, 4});
  const uint32_t row = r.View("aten::slice.Tensor", Args(V(cache), I(0), I(2), I(3), I(1)), {1, 4}, {4, 1}, 8);
  r.InPlace("aten::copy_", Args(V(row), V(x), B(false)));
  const uint32_t turned = r.View("aten::t", Args(V(cache)), {4, 8}, {1, 4});
  r.InPlace("aten::mul_.Tensor", Args(V(turned), NumberOf(0.5)));
  return r.Finish({turned, row});
}

Buffer GuardsAndLists() {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {6});
  const uint32_t a = r.ViewOf(x, {3}, {1});
  const uint32_t b = r.ViewOf(x, {3}, {1}, 3);
  const uint32_t both = r.Fresh(DType::kF32, {3, 2});
  const uint32_t found = r.Fresh(DType::kI64, {5, 2});
  const uint32_t sum = r.Fresh(DType::kF32, {});
  r.Step("aten::split.Tensor", Args(V(x), I(3), I(0)), Args(ValueList({a, b}))).is_view = true;
  r.Step("aten::stack", Args(ValueList({a, b}), I(1)), Args(V(both)));
  r.Step("aten::nonzero", Args(V(both)), Args(V(found))).is_dynamic_shape = true;
  r.Step("aten::sum", Args(V(both), Nil()), Args(V(sum)));
  r.Step("aten::item", Args(V(sum)), Args(F(2.0)));
  r.Step("aten::dropout", Args(V(both), F(0.5), B(true)), Args(V(r.Fresh(DType::kF32, {3, 2})))).is_random = true;
  return r.Finish({both, found});
}

Buffer Collectives() {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4, 8});
  const uint32_t all = r.Fresh(DType::kF32, {8, 8});
  const uint32_t sum = r.Fresh(DType::kF32, {4, 8});
  r.Step("_c10d_functional::all_gather_into_tensor", Args(V(x), I(2), Text("group 0")), Args(V(all))).is_opaque = true;
  r.Step("_c10d_functional::all_reduce", Args(V(x), Text("sum"), Text("group 1")), Args(V(sum))).is_opaque = true;
  r.Step("_c10d_functional::wait_tensor", Args(V(sum)), Args(V(sum))).is_opaque = true;
  r.Step("_c10d_functional::wait_tensor", Args(V(all)), Args(V(all))).is_opaque = true;
  return r.Finish({sum, all});
}

/// Sizes that Python computed with: x.view(b * s, 8)[: b * s // 2], taken where s >= 3.
Buffer Sizes() {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4, 6, 8});
  const uint32_t b = r.Expr(proto::SizeOp::Size, x, 0), s = r.Expr(proto::SizeOp::Size, x, 1);
  const uint32_t all = r.Expr(proto::SizeOp::Mul, b, s), two = r.Expr(proto::SizeOp::Number, 2);
  const uint32_t half = r.Expr(proto::SizeOp::FloorDiv, all, two), three = r.Expr(proto::SizeOp::Number, 3);
  r.SizeGuard(proto::SizeRelation::LessOrEqual, three, s);
  const uint32_t flat = r.View("aten::view", Args(V(x), IntList({24, 8})), {24, 8}, {8, 1});
  r.Sized(1, 0, all);
  const uint32_t part = r.View("aten::slice.Tensor", Args(V(flat), I(0), I(0), I(12), I(1)), {12, 8}, {8, 1});
  r.Sized(3, 0, half);
  const uint32_t y = r.Fresh(DType::kF32, {12, 8});
  r.Step("aten::relu", Args(V(part)), Args(V(y)));
  return r.Finish({y});
}

}  // namespace

std::vector<Buffer> Seeds() { return {Pointwise(), ViewsAndWrites(), GuardsAndLists(), Collectives(), Sizes()}; }

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  using namespace ingot::compiler;
  const Result<Graph> graph = ImportRecording({data, size});
  if (!graph) return 0;
  fuzz::accepted = true;
  const std::string text = Print(*graph);
  const Result<Graph> again = Parse(text);
  fuzz::Ensure(again.has_value(), "what is imported prints and parses:\n" + text);
  fuzz::Ensure(Print(*again) == text, "text is stable:\n" + text);
  fuzz::Ensure(CanonicalBytes(*again) == CanonicalBytes(*graph), "text keeps the program:\n" + text);
  if (const Result<Generalized> generalized = Generalize({data, size})) {
    const Result<Graph> both = Parse(Print(generalized->graph));
    fuzz::Ensure(both && CanonicalBytes(*both) == CanonicalBytes(generalized->graph),
                 "a template prints and parses:\n" + Print(generalized->graph));
    fuzz::Ensure(generalized->range.Holds(generalized->seen),
                 "a recording lies in its own range: " + generalized->range.ToText());
  }
  // Both functions of a pattern, which keeps the graph that has it a graph.
  const Bytes bytes{data, size};
  if (const auto pattern = ImportPattern({"p", bytes, bytes, bytes, bytes})) {
    Graph patterned = *graph;
    patterned.patterns.push_back(*pattern);
    const Result<Graph> back = Parse(Print(patterned));
    fuzz::Ensure(back && CanonicalBytes(*back) == CanonicalBytes(patterned),
                 "a pattern prints and parses:\n" + Print(patterned));
  }
  const Result<Graph> same = Unify(*graph, *again);
  fuzz::Ensure(!same || CanonicalBytes(*same) == CanonicalBytes(*graph), "a graph unifies with itself:\n" + text);
  return 0;
}
