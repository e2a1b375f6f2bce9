// SPDX-License-Identifier: Apache-2.0
#include "client/lib/artifact/manifest_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "guards/dtype.h"
#include "proto/artifact_generated.h"
#include "proto/group_slot.h"

namespace ingot::client {
namespace {

using proto::ArgKind;
using proto::StepKind;
using proto::StorageKind;
using ::testing::HasSubstr;

constexpr uint64_t kConstantsBytes = 128;
constexpr uint32_t kNone = 99;  ///< More than there are of anything.

std::unique_ptr<proto::PlanArgT> Arg(ArgKind kind, std::vector<int32_t> ints, std::vector<double> floats = {}) {
  auto arg = std::make_unique<proto::PlanArgT>();
  arg->kind = kind;
  arg->ints = std::move(ints);
  arg->floats = std::move(floats);
  return arg;
}

proto::PlanStepT& AddStep(proto::ManifestT& m, StepKind kind) {
  m.steps.push_back(std::make_unique<proto::PlanStepT>());
  m.steps.back()->kind = kind;
  return *m.steps.back();
}

uint32_t AddValue(proto::ManifestT& m, StorageKind kind, uint32_t index) {
  auto storage = std::make_unique<proto::StorageT>();
  storage->kind = kind;
  storage->index = index;
  m.storages.push_back(std::move(storage));
  auto value = std::make_unique<proto::ValueT>();
  value->sizes = value->strides = {0};
  value->storage = static_cast<uint32_t>(m.storages.size() - 1);
  m.values.push_back(std::move(value));
  return static_cast<uint32_t>(m.values.size() - 1);
}

std::unique_ptr<proto::CostT> SomeCost() {
  auto cost = std::make_unique<proto::CostT>();
  cost->flops = 0;
  cost->reads = {proto::Moved(0, 0)};
  cost->writes = {proto::Moved(0, 0)};
  return cost;
}

void AddKernel(proto::ManifestT& m) {
  auto kernel = std::make_unique<proto::KernelT>();
  kernel->symbol = "k";
  kernel->tiled = {proto::TiledDim(0, 8)};
  kernel->deciding = {0};
  kernel->cost = SomeCost();
  kernel->specials.push_back(std::make_unique<proto::SpecialKernelT>());
  kernel->specials[0]->values = {4};
  m.kernels.push_back(std::move(kernel));
}

/// One of everything. Values: inputs 0 and 1, weight 2, constant 3, one in the arena.
proto::ManifestT Base() {
  proto::ManifestT m;
  m.dims.push_back(std::make_unique<proto::DimT>());
  m.dims[0]->coefs = {4};
  m.dims[0]->degrees = {0};
  for (const uint32_t i : {0, 1}) {
    m.inputs.push_back(std::make_unique<proto::InputSpecT>());
    m.inputs.back()->value = AddValue(m, StorageKind::Input, i);
  }
  m.input_alias = {0, 1};
  m.symbols = {proto::SymbolSource(0, 0)};
  m.weights.push_back(std::make_unique<proto::InputSpecT>());
  m.weights[0]->value = AddValue(m, StorageKind::Weight, 0);
  m.constants.push_back(std::make_unique<proto::ConstantSpecT>());
  m.constants[0]->value = AddValue(m, StorageKind::Constant, 0);
  m.constants[0]->offset = m.constants[0]->bytes = 64;
  AddValue(m, StorageKind::Arena, 0);
  AddKernel(m);
  proto::PlanStepT& kernel = AddStep(m, StepKind::Kernel);
  kernel.buffers = {0, 4};
  kernel.symbols = {0};
  kernel.cost = SomeCost();
  proto::PlanStepT& aten = AddStep(m, StepKind::Aten);
  aten.op = "aten::add_";
  aten.args.push_back(Arg(ArgKind::Value, {4}));
  aten.results = {4};
  aten.inplace = 0;
  proto::PlanStepT& copy = AddStep(m, StepKind::Copy);
  copy.args.push_back(Arg(ArgKind::Value, {4}));
  copy.results = {0};
  proto::PlanStepT& guard = AddStep(m, StepKind::Guard);
  guard.args.push_back(Arg(ArgKind::Value, {1}));
  guard.args.push_back(Arg(ArgKind::Int, {0}));
  m.outputs = {4};
  m.recipe = std::make_unique<proto::RecipeT>();
  m.recipe->arenas.push_back(std::make_unique<proto::ArenaLayoutT>());
  m.recipe->arenas[0]->values = {4};
  m.recipe->arenas[0]->offsets = {0};
  return m;
}

/// What is said of the manifest after a change.
std::string SaidOf(const std::function<void(proto::ManifestT&)>& change) {
  proto::ManifestT m = Base();
  change(m);
  flatbuffers::FlatBufferBuilder builder;
  proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, &m));
  const Status status = CheckManifest(*proto::GetManifest(builder.GetBufferPointer()), kConstantsBytes);
  if (status) return "accepted";
  EXPECT_EQ(status.error().code(), Code::kCorrupt);
  return status.error().message();
}

TEST(CheckManifest, AcceptsOneOfEverything) {
  EXPECT_EQ(SaidOf([](auto&) {}), "accepted");
}

TEST(CheckManifest, FollowsWhatIsBound) {
  EXPECT_THAT(SaidOf([](auto& m) { m.groups = proto::kGroupsMax + 1; }), HasSubstr(": group "));
  EXPECT_THAT(SaidOf([](auto& m) { m.dims[0]->degrees.push_back(0); }), HasSubstr("term of dim"));
  EXPECT_THAT(SaidOf([](auto& m) { m.dims[0]->degrees = {1}; }), HasSubstr("term of dim"));
  EXPECT_THAT(SaidOf([](auto& m) { m.symbols = {proto::SymbolSource(2, 0)}; }), HasSubstr("symbol input 2"));
  EXPECT_THAT(SaidOf([](auto& m) { m.symbols = {proto::SymbolSource(0, 1)}; }), HasSubstr("symbol dim 1"));
  EXPECT_THAT(SaidOf([](auto& m) { m.conditions = "s1 == 4"; }), HasSubstr("no conditions over 1 symbols"));
  EXPECT_THAT(SaidOf([](auto& m) { m.conditions = "s0 ==="; }), HasSubstr("no conditions over 1 symbols"));
  EXPECT_THAT(SaidOf([](auto& m) { m.inputs[0]->value = 5; }), HasSubstr("bound value 5"));
  EXPECT_THAT(SaidOf([](auto& m) { m.weights[0]->value = 5; }), HasSubstr("bound value 5"));
  EXPECT_THAT(SaidOf([](auto& m) { m.constants[0]->value = 5; }), HasSubstr("bound value 5"));
  EXPECT_THAT(SaidOf([](auto& m) { m.inputs[0]->value = 1; }), HasSubstr("binding of value 1"));
  EXPECT_THAT(SaidOf([](auto& m) { m.inputs[0]->value = 4; }), HasSubstr("binding of value 4"));
  EXPECT_THAT(SaidOf([](auto& m) { m.weights[0]->value = 3; }), HasSubstr("binding of value 3"));
  EXPECT_THAT(SaidOf([](auto& m) { m.constants[0]->value = 2; }), HasSubstr("binding of value 2"));
  for (const auto& [offset, bytes] :
       {std::pair<uint64_t, uint64_t>{64, 65}, {128, 1}, {192, 0}, {32, 8}, {64, ~0ull}}) {
    EXPECT_THAT(SaidOf([&](auto& m) {
                  m.constants[0]->offset = offset;
                  m.constants[0]->bytes = bytes;
                }),
                HasSubstr("range of constant"))
        << offset << ", " << bytes;
  }
  EXPECT_THAT(SaidOf([](auto& m) { m.outputs = {5}; }), HasSubstr("output 5"));
  EXPECT_THAT(SaidOf([](auto& m) { m.input_alias = {0}; }), HasSubstr("input aliases 1"));
  EXPECT_THAT(SaidOf([](auto& m) { m.input_alias = {0, 2}; }), HasSubstr("input alias 2"));
}

TEST(CheckManifest, FollowsStoragesAndValues) {
  EXPECT_THAT(SaidOf([](auto& m) { m.storages[4]->bytes_dim = 1; }), HasSubstr("storage dim 1"));
  EXPECT_THAT(SaidOf([](auto& m) { m.storages[0]->index = 2; }), HasSubstr(": input 2"));
  EXPECT_THAT(SaidOf([](auto& m) { m.storages[2]->index = 1; }), HasSubstr(": weight 1"));
  EXPECT_THAT(SaidOf([](auto& m) { m.storages[3]->index = 1; }), HasSubstr(": constant 1"));
  EXPECT_THAT(SaidOf([](auto& m) { m.storages[4]->kind = static_cast<StorageKind>(6); }), HasSubstr("storage kind 6"));
  EXPECT_THAT(SaidOf([](auto& m) { m.storages[4]->first_step = 5; }), HasSubstr("first step 5"));
  EXPECT_THAT(SaidOf([](auto& m) { m.storages[4]->last_step = 5; }), HasSubstr("last step 5"));
  EXPECT_THAT(SaidOf([](auto& m) { m.storages[4]->first_step = 1; }), HasSubstr("lifetime of storage 4"));
  EXPECT_THAT(SaidOf([](auto& m) { m.recipe->arenas[0]->values.clear(); }), HasSubstr("symbols of layout 0"));
  EXPECT_THAT(SaidOf([](auto& m) { m.recipe->arenas[0]->offsets.clear(); }), HasSubstr("buffers of layout 0"));
  EXPECT_THAT(SaidOf([](auto& m) { m.values[4]->dtype = static_cast<proto::DType>(guards::kDTypeCount); }),
              HasSubstr(": dtype "));
  EXPECT_THAT(SaidOf([](auto& m) { m.values[4]->sizes = {1}; }), HasSubstr(": size 1"));
  EXPECT_THAT(SaidOf([](auto& m) { m.values[4]->strides = {1}; }), HasSubstr(": stride 1"));
  EXPECT_THAT(SaidOf([](auto& m) { m.values[4]->strides = {0, 0}; }), HasSubstr("rank of value 4"));
  EXPECT_THAT(SaidOf([](auto& m) { m.values[4]->sizes = m.values[4]->strides = std::vector<uint32_t>(65); }),
              HasSubstr("rank of value 4"));
  EXPECT_THAT(SaidOf([](auto& m) { m.values[4]->offset = 1; }), HasSubstr(": offset 1"));
  EXPECT_THAT(SaidOf([](auto& m) { m.values[4]->storage = 5; }), HasSubstr(": storage 5"));
}

TEST(CheckManifest, FollowsKernels) {
  const auto said = [](const std::function<void(proto::KernelT&)>& change) {
    return SaidOf([&](auto& m) { change(*m.kernels[0]); });
  };
  EXPECT_THAT(said([](auto& k) { k.rows = 1; }), HasSubstr(": rows 1"));
  EXPECT_THAT(said([](auto& k) { k.scratch_bytes = 1; }), HasSubstr(": scratch 1"));
  EXPECT_THAT(said([](auto& k) { k.row_elements = 1; }), HasSubstr("row elements 1"));
  EXPECT_THAT(said([](auto& k) { k.tiled = {proto::TiledDim(1, 8)}; }), HasSubstr("tiled dim 1"));
  EXPECT_THAT(said([](auto& k) { k.tiled = {proto::TiledDim(0, 0)}; }), HasSubstr("tile of kernel 0"));
  EXPECT_THAT(said([](auto& k) { k.specials[0]->kernel = 1; }), HasSubstr("special kernel 1"));
  EXPECT_THAT(said([](auto& k) { k.specials[0]->values = {4, 4}; }), HasSubstr("value of special kernel"));
  EXPECT_THAT(said([](auto& k) {
                k.specials[0]->values.clear();
                k.deciding.clear();
              }),
              HasSubstr("value of special kernel"));
  EXPECT_THAT(said([](auto& k) { k.deciding = {1}; }), HasSubstr("deciding symbol 1"));
  const auto costs = [&](const char* why, const std::function<void(proto::CostT&)>& change) {
    EXPECT_THAT(said([&](auto& k) { change(*k.cost); }), HasSubstr(why));
    EXPECT_THAT(SaidOf([&](auto& m) { change(*m.steps[0]->cost); }), HasSubstr(why));
  };
  costs("operation count 1", [](auto& c) { c.flops = 1; });
  costs(": dtype ", [](auto& c) { c.dtype = static_cast<proto::DType>(guards::kDTypeCount); });
  costs(": bytes 1", [](auto& c) { c.reads = {proto::Moved(1, 0)}; });
  costs(": bytes 1", [](auto& c) { c.reads = {proto::Moved(0, 1)}; });
  costs(": bytes 1", [](auto& c) { c.writes = {proto::Moved(1, 0)}; });
  costs(": bytes 1", [](auto& c) { c.writes = {proto::Moved(0, 1)}; });
}

TEST(CheckManifest, FollowsSteps) {
  const auto said = [](size_t step, const std::function<void(proto::PlanStepT&)>& change) {
    return SaidOf([&](auto& m) { change(*m.steps[step]); });
  };
  EXPECT_THAT(said(0, [](auto& s) { s.kernel = 1; }), HasSubstr(": kernel 1"));
  EXPECT_THAT(said(0, [](auto& s) { s.buffers = {5}; }), HasSubstr(": buffer 5"));
  EXPECT_THAT(said(0, [](auto& s) { s.symbols = {1}; }), HasSubstr("kernel symbol 1"));
  EXPECT_THAT(said(1, [](auto& s) { s.results = {5}; }), HasSubstr(": result 5"));
  EXPECT_THAT(said(1, [](auto& s) { s.op.clear(); }), HasSubstr("operator name"));
  EXPECT_THAT(said(1, [](auto& s) { s.inplace = 1; }), HasSubstr("in-place argument 1"));
  EXPECT_THAT(said(1, [](auto& s) { s.args[0] = Arg(ArgKind::Int, {0}); }), HasSubstr("in-place argument 0"));
  EXPECT_THAT(said(1, [](auto& s) { s.results = {4, 4}; }), HasSubstr("in-place argument 0"));
  EXPECT_THAT(said(1, [](auto& s) { s.taken = 1; }), HasSubstr("written memory 1"));
  EXPECT_THAT(said(1, [](auto& s) { s.memories = {0}; }), HasSubstr("written memory 0"));
  EXPECT_THAT(said(1, [](auto& s) { s.memories = {5}; }), HasSubstr("written memory 5"));
  EXPECT_THAT(said(1, [](auto& s) { s.targets = {5}; }), HasSubstr(": target 5"));
  EXPECT_THAT(said(0, [](auto& s) { s.memories = s.targets = {0}; }), HasSubstr("written memory 0"));
  EXPECT_THAT(said(2, [](auto& s) { s.args[0] = Arg(ArgKind::Int, {0}); }), HasSubstr("copied value"));
  EXPECT_THAT(said(2, [](auto& s) { s.results.clear(); }), HasSubstr("copied value"));
  EXPECT_THAT(said(3, [](auto& s) { s.args[0] = Arg(ArgKind::Int, {0}); }), HasSubstr("guarded value"));
  EXPECT_THAT(said(3, [](auto& s) { s.args.pop_back(); }), HasSubstr("guarded value"));
  EXPECT_THAT(said(3, [](auto& s) { s.kind = static_cast<StepKind>(4); }), HasSubstr("step kind 4"));
}

// By their names: what a schema says, AtenCall looks at.
TEST(CheckManifest, NamesNoInnerWorkingsOfPyTorch) {
  for (const char* const op : {"inductor::_reinterpret_tensor", "c10d::barrier", "symm_mem::one_shot_all_reduce",
                               "profiler::_record_function_exit", "debugprims::load_tensor", "add", "aten::", "::add",
                               "aten::add.", "aten::add Tensor", "aten::a/b"}) {
    EXPECT_THAT(SaidOf([op](auto& m) { m.steps[1]->op = op; }), HasSubstr("is none that a plan may name")) << op;
  }
  for (const char* const op : {"aten::add_.Tensor", "a_library::op", "_c10d_functional::all_reduce"}) {
    EXPECT_EQ(SaidOf([op](auto& m) { m.steps[1]->op = op; }), "accepted") << op;
  }
}

TEST(CheckManifest, FollowsArguments) {
  const auto said = [](std::unique_ptr<proto::PlanArgT> arg) {
    return SaidOf([&](auto& m) { m.steps[1]->args.push_back(std::move(arg)); });
  };
  const auto number = [](uint8_t kind, std::vector<int32_t> ints, std::vector<double> floats) {
    auto arg = Arg(ArgKind::Number, std::move(ints), std::move(floats));
    arg->number_kind = kind;
    return arg;
  };
  for (const ArgKind kind : {ArgKind::Value, ArgKind::Int, ArgKind::Bool, ArgKind::DType}) {
    EXPECT_EQ(said(Arg(kind, {0})), "accepted");
    EXPECT_THAT(said(Arg(kind, {})), HasSubstr("argument part 0"));
    EXPECT_THAT(said(Arg(kind, {0, 0})), HasSubstr("argument part 2"));
  }
  EXPECT_EQ(said(Arg(ArgKind::Float, {}, {1})), "accepted");
  EXPECT_THAT(said(Arg(ArgKind::Float, {})), HasSubstr("argument part 0"));
  EXPECT_EQ(said(number(2, {}, {1})), "accepted");
  EXPECT_THAT(said(number(2, {0}, {})), HasSubstr("argument part 0"));
  EXPECT_THAT(said(number(1, {}, {1})), HasSubstr("argument part 0"));
  EXPECT_THAT(said(number(1, {1}, {})), HasSubstr(": dim 1"));
  EXPECT_THAT(said(Arg(ArgKind::Int, {1})), HasSubstr(": dim 1"));
  EXPECT_THAT(said(Arg(ArgKind::IntList, {0, 1})), HasSubstr(": dim 1"));
  EXPECT_THAT(said(Arg(ArgKind::Value, {5})), HasSubstr(": value 5"));
  EXPECT_THAT(said(Arg(ArgKind::Value, {-1})), HasSubstr(": value "));
  EXPECT_EQ(said(Arg(ArgKind::ValueList, {0, -1})), "accepted");
  EXPECT_THAT(said(Arg(ArgKind::ValueList, {0, 5})), HasSubstr(": value 5"));
  EXPECT_THAT(said(Arg(ArgKind::ValueList, {-2})), HasSubstr(": value "));
  EXPECT_THAT(said(Arg(ArgKind::DType, {static_cast<int32_t>(guards::kDTypeCount)})), HasSubstr(": dtype "));
  EXPECT_EQ(said(Arg(ArgKind::String, {})), "accepted");
  EXPECT_THAT(said(Arg(static_cast<ArgKind>(kNone), {})), HasSubstr("argument kind 99"));
}

}  // namespace
}  // namespace ingot::client
