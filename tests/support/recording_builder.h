// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "guards/dtype.h"
#include "proto/graph_generated.h"

namespace ingot::support {

using Ints = std::vector<int64_t>;
using RecordedArg = std::unique_ptr<proto::ArgT>;

inline RecordedArg MakeArg(proto::ArgKind kind, Ints ints = {}, std::vector<double> floats = {}) {
  auto arg = std::make_unique<proto::ArgT>();
  arg->kind = kind;
  arg->ints = std::move(ints);
  arg->floats = std::move(floats);
  return arg;
}
inline RecordedArg Nil() { return MakeArg(proto::ArgKind::None); }
inline RecordedArg V(uint32_t id) { return MakeArg(proto::ArgKind::Value, {id}); }
inline RecordedArg I(int64_t value) { return MakeArg(proto::ArgKind::Int, {value}); }
inline RecordedArg B(bool value) { return MakeArg(proto::ArgKind::Bool, {value}); }
inline RecordedArg F(double value) { return MakeArg(proto::ArgKind::Float, {}, {value}); }
inline RecordedArg IntList(Ints values) { return MakeArg(proto::ArgKind::IntList, std::move(values)); }
inline RecordedArg ValueList(Ints ids) { return MakeArg(proto::ArgKind::ValueList, std::move(ids)); }
inline RecordedArg DTypeOf(guards::DType dtype) {
  return MakeArg(proto::ArgKind::DType, {static_cast<int64_t>(dtype)});
}
inline RecordedArg Text(std::string text) {
  RecordedArg arg = MakeArg(proto::ArgKind::String);
  arg->text = std::move(text);
  return arg;
}
/// A Python number in a tensor position.
inline RecordedArg NumberOf(int64_t value) {
  RecordedArg arg = MakeArg(proto::ArgKind::Number, {value});
  arg->number_kind = 1;
  return arg;
}
inline RecordedArg NumberOf(double value) {
  RecordedArg arg = MakeArg(proto::ArgKind::Number, {}, {value});
  arg->number_kind = 2;
  return arg;
}

/// Arguments of a step: braces cannot hold move-only values, a function can.
template <typename... Parts>
std::vector<RecordedArg> Args(Parts... parts) {
  std::vector<RecordedArg> list;
  (list.push_back(std::move(parts)), ...);
  return list;
}

/// Writes recordings as a client would, one step after the other.
///
///   RecordingBuilder r;
///   const uint32_t x = r.Input("x", DType::kF32, {4, 16});
///   const uint32_t y = r.Fresh(DType::kF32, {4, 16});
///   r.Step("aten::silu", Args(V(x)), Args(V(y)));
///   const Buffer bytes = r.Finish({y});
class RecordingBuilder {
 public:
  explicit RecordingBuilder(std::string name = "forward") { recording_.name = std::move(name); }

  /// A tensor in memory of its own. Empty strides: contiguous.
  uint32_t Fresh(guards::DType dtype, Ints sizes, Ints strides = {}) {
    return Tensor(dtype, std::move(sizes), std::move(strides), 0, next_storage_++);
  }
  /// A tensor in the memory of `base`.
  uint32_t ViewOf(uint32_t base, Ints sizes, Ints strides, int64_t offset = 0) {
    const proto::TensorMetaT& meta = *recording_.values[base];
    const uint32_t storage = meta.storage;
    return Tensor(static_cast<guards::DType>(meta.dtype), std::move(sizes), std::move(strides), offset, storage);
  }

  uint32_t Input(std::string name, guards::DType dtype, Ints sizes, Ints strides = {}) {
    return Source(proto::SourceKind::Input, std::move(name), Fresh(dtype, std::move(sizes), std::move(strides)));
  }
  uint32_t Weight(std::string name, guards::DType dtype, Ints sizes, Ints strides = {}) {
    return Source(proto::SourceKind::Weight, std::move(name), Fresh(dtype, std::move(sizes), std::move(strides)));
  }
  uint32_t Constant(std::string name, guards::DType dtype, Ints sizes, std::string data) {
    const uint32_t id = Source(proto::SourceKind::Constant, std::move(name), Fresh(dtype, std::move(sizes)));
    recording_.sources.back()->data.assign(data.begin(), data.end());
    return id;
  }
  /// Makes a tensor a source, for aliased ones.
  uint32_t Source(proto::SourceKind kind, std::string name, uint32_t id) {
    auto source = std::make_unique<proto::SourceT>();
    source->kind = kind;
    source->name = std::move(name);
    source->value = id;
    recording_.sources.push_back(std::move(source));
    return id;
  }

  /// The step stays open for flags: `r.Step(...).is_random = true`.
  proto::StepT& Step(std::string op, std::vector<RecordedArg> args, std::vector<RecordedArg> results) {
    auto step = std::make_unique<proto::StepT>();
    step->op = std::move(op);
    step->args = std::move(args);
    step->results = std::move(results);
    recording_.steps.push_back(std::move(step));
    return *recording_.steps.back();
  }
  /// A step that writes its argument 0 and returns it.
  proto::StepT& InPlace(std::string op, std::vector<RecordedArg> args) {
    const uint32_t self = static_cast<uint32_t>(args[0]->ints[0]);
    proto::StepT& step = Step(std::move(op), std::move(args), Args(V(self)));
    step.writes = {0};
    return step;
  }
  /// A step whose only result is a view of argument 0.
  uint32_t View(std::string op, std::vector<RecordedArg> args, Ints sizes, Ints strides, int64_t offset = 0) {
    const uint32_t self = static_cast<uint32_t>(args[0]->ints[0]);
    const uint32_t id = ViewOf(self, std::move(sizes), std::move(strides), offset);
    Step(std::move(op), std::move(args), Args(V(id))).is_view = true;
    return id;
  }

  /// What Python computed with sizes; the recording then speaks for other sizes too.
  uint32_t Expr(proto::SizeOp op, int64_t a, int64_t b = 0) {
    recording_.follows_sizes = true;
    recording_.size_exprs.emplace_back(op, a, b);
    return static_cast<uint32_t>(recording_.size_exprs.size() - 1);
  }
  void SizeGuard(proto::SizeRelation relation, uint32_t left, uint32_t right, std::string where = "net.py:1") {
    auto guard = std::make_unique<proto::SizeGuardT>();
    guard->relation = relation;
    guard->left = left;
    guard->right = right;
    guard->where = std::move(where);
    recording_.size_guards.push_back(std::move(guard));
  }
  /// Integer `index` of argument `arg` of the last step.
  void Sized(uint32_t arg, uint32_t index, uint32_t expr) {
    recording_.sized_ints.emplace_back(static_cast<uint32_t>(recording_.steps.size() - 1), arg, index, expr);
  }

  Buffer Finish(std::vector<uint32_t> outputs) {
    recording_.outputs = std::move(outputs);
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(proto::Recording::Pack(builder, &recording_), proto::RecordingIdentifier());
    return Buffer(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  }

  proto::RecordingT& recording() { return recording_; }

 private:
  uint32_t Tensor(guards::DType dtype, Ints sizes, Ints strides, int64_t offset, uint32_t storage) {
    auto meta = std::make_unique<proto::TensorMetaT>();
    meta->dtype = static_cast<proto::DType>(dtype);
    if (strides.empty()) {
      strides.resize(sizes.size());
      // Wraps, because hostile sizes are recorded too.
      uint64_t stride = 1;
      for (size_t i = sizes.size(); i-- > 0;) {
        strides[i] = static_cast<int64_t>(stride);
        stride *= sizes[i] > 0 ? static_cast<uint64_t>(sizes[i]) : 1;
      }
    }
    meta->sizes = std::move(sizes);
    meta->strides = std::move(strides);
    meta->offset = offset;
    meta->storage = storage;
    recording_.values.push_back(std::move(meta));
    return static_cast<uint32_t>(recording_.values.size() - 1);
  }

  proto::RecordingT recording_;
  uint32_t next_storage_ = 0;
};

}  // namespace ingot::support
