// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/recording.h"

#include <fmt/format.h>

#include "compiler/ir/verify.h"
#include "proto/message.h"

namespace ingot::compiler {
namespace {

constexpr size_t kRecordingBytesMax = 1u << 30;
constexpr size_t kRankMax = 64;
/// FlatBuffers may share sub-tables and strings; a recording may name what it carries a few
/// times over, but must not unfold into more than a reader can hold.
constexpr uint64_t kUnfoldFactor = 64;

/// Range of bytes the elements lie in; false on overflow or negative strides.
bool FindExtent(Meta& meta) {
  int64_t last = meta.offset;
  bool empty = false;
  for (size_t i = 0; i < meta.type.rank(); ++i) {
    const int64_t size = meta.type.sizes[i].const_value();
    const int64_t stride = meta.type.strides[i].const_value();
    int64_t reach = 0;
    if (stride < 0) return false;
    empty |= size == 0;
    if (size > 0 && (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last))) {
      return false;
    }
  }
  const int64_t item = static_cast<int64_t>(guards::SizeOf(meta.type.dtype));
  int64_t end = 0;
  if (__builtin_mul_overflow(meta.offset, item, &meta.first_byte)) return false;
  if (__builtin_add_overflow(last, empty ? 0 : 1, &end)) return false;
  return !__builtin_mul_overflow(empty ? meta.offset : end, item, &meta.end_byte);
}

}  // namespace

Error CorruptRecording(std::string what) { return Error(Code::kCorrupt, "recording: " + std::move(what)); }

Result<Recording> Recording::Open(Bytes bytes) {
  if (bytes.size() < 8 || bytes.size() > kRecordingBytesMax) {
    return CorruptRecording(fmt::format("{} bytes, expected 8 to {}", bytes.size(), kRecordingBytesMax));
  }
  Recording recording;
  // Messages embed recordings at any address; 8-byte fields need an aligned one.
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0) {
    recording.copy_.assign(bytes.begin(), bytes.end());
    bytes = recording.copy_;
  }
  recording.root_ = proto::ReadMessage<proto::Recording>(
      bytes, {.identifier = proto::RecordingIdentifier(), .shares_max = kUnfoldFactor});
  if (recording.root_ == nullptr) return CorruptRecording("bytes do not verify as INGR");
  recording.budget_bytes_ = bytes.size() * kUnfoldFactor;
  TRY(recording.ReadMetas());
  return recording;
}

Status Recording::Spend(uint64_t bytes) {
  if (bytes > budget_bytes_) return CorruptRecording("shared parts unfold beyond all measure");
  budget_bytes_ -= bytes;
  return {};
}

Status Recording::ReadMetas() {
  if (!root_->values()) return {};
  for (const proto::TensorMeta* tensor : *root_->values()) {
    const size_t id = metas_.size();
    const size_t rank = tensor->sizes() ? tensor->sizes()->size() : 0;
    const size_t strides = tensor->strides() ? tensor->strides()->size() : 0;
    if (rank != strides || rank > kRankMax) {
      return CorruptRecording(fmt::format("value {} has {} sizes and {} strides", id, rank, strides));
    }
    TRY(Spend(16 * rank + 16));
    Meta meta;
    meta.type.dtype = static_cast<DType>(tensor->dtype());
    meta.offset = tensor->offset();
    meta.storage = tensor->storage();
    if (static_cast<size_t>(tensor->dtype()) >= guards::kDTypeCount) {
      return CorruptRecording(fmt::format("value {} has an unknown element type", id));
    }
    for (size_t i = 0; i < rank; ++i) {
      meta.type.sizes.push_back(tensor->sizes()->Get(i));
      meta.type.strides.push_back(tensor->strides()->Get(i));
    }
    if (meta.offset < 0 || !ConstantBytes(meta.type) || !FindExtent(meta)) {
      return CorruptRecording(fmt::format("value {} has impossible sizes, strides or offset", id));
    }
    metas_.push_back(std::move(meta));
  }
  return {};
}

Result<uint32_t> Recording::CheckId(int64_t id) const {
  if (id < 0 || static_cast<uint64_t>(id) >= metas_.size()) {
    return CorruptRecording(fmt::format("value {} of {}", id, metas_.size()));
  }
  return static_cast<uint32_t>(id);
}

Result<Arg> Recording::ReadArg(const proto::Arg& arg) {
  const auto* ints = arg.ints();
  const auto* floats = arg.floats();
  const size_t int_count = ints ? ints->size() : 0;
  const size_t float_count = floats ? floats->size() : 0;
  TRY(Spend(8 * (int_count + float_count + 1) + (arg.text() ? arg.text()->size() : 0)));
  const auto one = [&]() -> Result<int64_t> {
    if (int_count != 1) return CorruptRecording(fmt::format("{} integers where one belongs", int_count));
    return ints->Get(0);
  };
  switch (arg.kind()) {
    case proto::ArgKind::None: return Arg(None{});
    case proto::ArgKind::Value: {
      TRY_ASSIGN(const int64_t id, one());
      TRY_ASSIGN(const uint32_t value, CheckId(id));
      return Arg(Ref{value});
    }
    case proto::ArgKind::Number: {
      if (arg.number_kind() == 2 && float_count == 1) return Arg(Number{floats->Get(0)});
      TRY_ASSIGN(const int64_t value, one());
      if (arg.number_kind() == 0) return Arg(Number{value != 0});
      if (arg.number_kind() == 1) return Arg(Number{Dim(value)});
      return CorruptRecording("number of an unknown kind");
    }
    case proto::ArgKind::Bool: {
      TRY_ASSIGN(const int64_t value, one());
      return Arg(value != 0);
    }
    case proto::ArgKind::Int: {
      TRY_ASSIGN(const int64_t value, one());
      return Arg(Dim(value));
    }
    case proto::ArgKind::Float:
      if (float_count != 1) return CorruptRecording("a float argument without its value");
      return Arg(floats->Get(0));
    case proto::ArgKind::String: return Arg(Name(arg.text() ? arg.text()->str() : ""));
    case proto::ArgKind::DType: {
      TRY_ASSIGN(const int64_t value, one());
      if (value < 0 || value >= static_cast<int64_t>(guards::kDTypeCount)) {
        return CorruptRecording(fmt::format("element type {}", value));
      }
      return Arg(DTypeArg{static_cast<DType>(value)});
    }
    case proto::ArgKind::ValueList: {
      RefList list;
      for (size_t i = 0; i < int_count; ++i) {
        if (ints->Get(i) == -1) {
          list.ids.push_back(kNoValue);
          continue;
        }
        TRY_ASSIGN(const uint32_t value, CheckId(ints->Get(i)));
        list.ids.push_back(value);
      }
      return Arg(std::move(list));
    }
    case proto::ArgKind::IntList: return Arg(int_count ? Dims(ints->begin(), ints->end()) : Dims());
    case proto::ArgKind::FloatList:
      return Arg(float_count ? std::vector<double>(floats->begin(), floats->end()) : std::vector<double>());
    case proto::ArgKind::BoolList: {
      std::vector<bool> list;
      for (size_t i = 0; i < int_count; ++i) list.push_back(ints->Get(i) != 0);
      return Arg(std::move(list));
    }
  }
  return CorruptRecording(fmt::format("argument of unknown kind {}", static_cast<int>(arg.kind())));
}

}  // namespace ingot::compiler
