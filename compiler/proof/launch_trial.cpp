// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/launch_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "compiler/fusion/alias.h"
#include "compiler/fusion/expr.h"
#include "compiler/import/import.h"
#include "compiler/loop/ops.h"
#include "compiler/proof/products.h"

namespace ingot::compiler {

using guards::DType;

namespace {

// Of one parameter.
constexpr int64_t kBufferBytesMax = 64 << 20;
// Of each, from its beginning and from its end: what lies between is zero on both sides.
constexpr int64_t kFilledBytesMax = 1 << 20;
// Interpreted instructions up to which all rows run.
constexpr uint64_t kWholeWorkMax = 100'000;
constexpr int64_t kRowsAtEnd = 2, kColumnsAtEnd = 2;
// What nothing that is stored looks like.
constexpr int kUnwritten = 0xA5;
// An element costs the reference about as much as it costs the kernel, which shares more between elements.
constexpr uint64_t kReferenceWorkMax = 4'000'000;
constexpr int64_t kComputedElementsMax = 1 << 16;

double AsNumber(const loop::Scalar& scalar, DType dtype) {
  return guards::IsFloat(dtype) ? scalar.f : static_cast<double>(scalar.i);
}

}  // namespace

LaunchTrial::LaunchTrial(const Graph& graph, const Fused& fused, const Launch& launch, std::span<const int64_t> symbols,
                         uint64_t seed, Sampled sampled)
    : graph_(graph),
      kernel_(fused.kernels[launch.kernel]),
      launch_(launch),
      symbols_(symbols.begin(), symbols.end()),
      seed_(seed),
      sampled_(sampled) {
  for (const Dim& symbol : launch.symbols) kernel_symbols_.push_back(symbol.Eval(symbols_));
  row_count_ = guards::Product(kernel_.rows).Eval(kernel_symbols_);
  for (const NodeId id : launch.nodes) {
    for (const ValueId value : graph.node(id).results) is_narrow_ |= IsStorageFloat(graph.type(value).dtype);
  }
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    Buffer& buffer = buffers_.emplace_back();
    buffer.value = launch.buffers[i];
    buffer.read = ReadBy(graph, fused, launch, i);
  }
  Sample();
  // Pages that are made and compared cost as much as some operations on what lies in them.
  constexpr int64_t kElementsPerWork = 16;
  for (const loop::Param& param : kernel_.params) {
    work_ += static_cast<uint64_t>(std::max<int64_t>(0, param.elements.Eval(kernel_symbols_)) / kElementsPerWork);
  }
}

bool LaunchTrial::JoinsColumns() const {
  return std::ranges::any_of(kernel_.insts, [](const loop::Inst& inst) {
    return loop::JoinsColumns(inst.op) && inst.op != loop::ScalarOp::kReduceDot;
  });
}

uint64_t LaunchTrial::CostOfRow() const {
  int64_t cost = 0;
  for (const loop::Block& block : kernel_.blocks) {
    int64_t extent = block.is_loop ? block.extent.Eval(kernel_symbols_) : 1;
    if (block.is_contraction()) extent *= block.Depth().Eval(kernel_symbols_);
    cost += std::max<int64_t>(0, extent) * static_cast<int64_t>(block.insts.size());
  }
  return static_cast<uint64_t>(cost);
}

void LaunchTrial::Sample() {
  const uint64_t row = std::max<uint64_t>(1, CostOfRow());
  const auto rows = static_cast<uint64_t>(std::max<int64_t>(0, row_count_));
  is_whole_ = rows <= kWholeWorkMax / row || rows <= 1;
  std::vector<std::pair<int64_t, int64_t>> ends = {{0, row_count_}};
  if (!is_whole_ && row_count_ > 2 * kRowsAtEnd) ends = {{0, kRowsAtEnd}, {row_count_ - kRowsAtEnd, row_count_}};
  int64_t columns = 0;
  for (const loop::Block& block : kernel_.blocks) {
    if (block.is_loop) columns = std::max(columns, block.extent.Eval(kernel_symbols_));
  }
  const bool is_cut = row > kWholeWorkMax && columns > 2 * kColumnsAtEnd && !JoinsColumns();
  is_whole_ &= !is_cut;
  for (const auto& [begin, end] : ends) {
    const auto count = static_cast<uint64_t>(end - begin);
    if (!is_cut) {
      rows_.push_back({begin, end, loop::kAllColumns});
      work_ += count * row;
      continue;
    }
    rows_.push_back({begin, end, {0, kColumnsAtEnd}});
    rows_.push_back({begin, end, {columns - kColumnsAtEnd, columns}});
    work_ += count * row * 2 * kColumnsAtEnd / static_cast<uint64_t>(columns);
  }
}

std::vector<int64_t> LaunchTrial::StridesOf(ValueId value) const {
  std::vector<int64_t> strides;
  for (const Dim& stride : graph_.type(value).strides) strides.push_back(stride.Eval(symbols_));
  return strides;
}

bool LaunchTrial::IsMember(ValueId value) const {
  const NodeId def = graph_.value(value).def;
  return def != kNoNode && std::ranges::find(launch_.nodes, def) != launch_.nodes.end();
}

Status LaunchTrial::Prepare() {
  if (row_count_ <= 0) return Error(Code::kUnsupported, "it has no rows at these sizes");
  for (size_t i = 0; i < buffers_.size(); ++i) {
    Buffer& buffer = buffers_[i];
    const loop::Param& param = kernel_.params[i];
    buffer.dtype = param.dtype;
    buffer.elements = param.elements.Eval(kernel_symbols_);
    const auto size = static_cast<int64_t>(SizeOf(param.dtype));
    if (guards::IsComplex(param.dtype)) return Error(Code::kUnsupported, "complex numbers");
    if (buffer.elements < 0 || buffer.elements > kBufferBytesMax / size) {
      return Error(Code::kUnsupported, "more memory than a proof takes");
    }
    buffer.bytes = buffer.elements * size;
    buffer.strides = StridesOf(buffer.value);
    TRY(Fill(buffer, i));
  }
  return FillComputed();
}

Status LaunchTrial::Fill(Buffer& buffer, size_t number) {
  buffer.before = Zeros(static_cast<size_t>(buffer.bytes));
  if (!buffer.before) return Error(Code::kExhausted, "no memory");
  if (buffer.read == kNoValue) {
    std::memset(buffer.before.get(), kUnwritten, static_cast<size_t>(buffer.bytes));
  } else {
    Random random(seed_ + number * 0x9E3779B97F4A7C15u);
    const auto size = static_cast<int64_t>(SizeOf(buffer.dtype));
    const int64_t front = std::min(buffer.elements, kFilledBytesMax / size);
    const auto fill = [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at)
        PutSample(buffer.before.get() + at * size, buffer.dtype, sampled_, random);
    };
    fill(0, front);
    fill(std::max(front, buffer.elements - front), buffer.elements);
  }
  return {};
}

Status LaunchTrial::FillComputed() {
  for (Buffer& buffer : buffers_) {
    if (buffer.read == kNoValue || buffer.read != buffer.value || !IsMember(buffer.value)) continue;
    Evaluation computed(graph_, symbols_, kReferenceWorkMax, Narrow::kRounded);
    for (const Buffer& other : buffers_) {
      if (other.read == kNoValue || &other == &buffer || IsMember(other.read)) continue;
      computed.Give(other.read, {other.before.get(), 0, StridesOf(other.read)});
    }
    const int64_t elements = computed.ElementsOf(buffer.value);
    if (elements > kComputedElementsMax) return Error(Code::kUnsupported, "it reads much that it computes as well");
    const std::vector<int64_t> sizes = computed.SizesOf(buffer.value);
    for (int64_t number = 0; number < elements; ++number) {
      const int64_t offset = PlaceOf(sizes, buffer.strides, number);
      const auto size = static_cast<int64_t>(SizeOf(buffer.dtype));
      loop::WriteElement(buffer.before.get() + offset * size, buffer.dtype, computed.At(buffer.value, number));
    }
    TRY(computed.status());
  }
  return {};
}

Status LaunchTrial::Run() {
  std::vector<void*> memory;
  for (Buffer& buffer : buffers_) {
    buffer.after = buffer.before;
    if (buffer.read == kNoValue || buffer.read != buffer.value) {
      buffer.after = CopyOf(buffer.before, static_cast<size_t>(buffer.bytes));
      if (!buffer.after) return Error(Code::kExhausted, "no memory");
    }
    memory.push_back(buffer.after.get());
  }
  return Interpret(memory);
}

Status LaunchTrial::Interpret(const std::vector<void*>& memory) const {
  for (const Rows& rows : rows_) {
    TRY(loop::Interpret(kernel_, memory, kernel_symbols_, rows.begin, rows.end, rows.columns));
  }
  return {};
}

/// What is stored may look like memory that nobody has written to; not in two kinds of memory.
Result<bool> LaunchTrial::IsWritten(const Buffer& buffer, int64_t at, int64_t bytes) {
  if (elsewhere_.empty()) {
    std::vector<void*> memory;
    for (const Buffer& one : buffers_) {
      const bool is_result = one.read == kNoValue;
      Memory other = is_result ? Zeros(static_cast<size_t>(one.bytes)) : one.before;
      if (!other) return Error(Code::kExhausted, "no memory");
      // What the kernel changes in place it would change again.
      if (!is_result && one.read != one.value) {
        other = CopyOf(one.before, static_cast<size_t>(one.bytes));
        if (!other) return Error(Code::kExhausted, "no memory");
      }
      if (is_result) std::memset(other.get(), ~kUnwritten & 0xFF, static_cast<size_t>(one.bytes));
      memory.push_back(other.get());
      elsewhere_.push_back(std::move(other));
    }
    TRY(Interpret(memory));
  }
  const auto number = static_cast<size_t>(&buffer - buffers_.data());
  const uint8_t* there = elsewhere_[number].get() + at;
  return std::any_of(there, there + bytes, [](uint8_t byte) { return byte != (~kUnwritten & 0xFF); });
}

Evaluation& LaunchTrial::Reference(std::unique_ptr<Evaluation>& made, Narrow narrow, bool is_nudged) {
  if (made) return *made;
  made = std::make_unique<Evaluation>(graph_, symbols_, kReferenceWorkMax, narrow);
  Random random(seed_);
  for (const Buffer& buffer : buffers_) {
    if (buffer.read == kNoValue) continue;
    Memory memory = buffer.before;
    // Where there is no memory, what was given stays as it was.
    if (Memory copy = is_nudged ? CopyOf(buffer.before, static_cast<size_t>(buffer.bytes)) : nullptr) {
      const auto size = static_cast<int64_t>(SizeOf(buffer.dtype));
      for (int64_t at = 0; at < buffer.elements; ++at) {
        Nudge(copy.get() + at * size, buffer.dtype, (random.Next() & 1) != 0);
      }
      memory = nudged_.emplace_back(std::move(copy));
    }
    made->Give(buffer.read, {memory.get(), 0, StridesOf(buffer.read)});
  }
  return *made;
}

Status LaunchTrial::Compare() {
  const std::vector<loop::Exactness> exactness = loop::FindExactness(kernel_);
  has_steps_ = std::ranges::any_of(exactness, &loop::Exactness::has_steps);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (kernel_.params[i].mode != loop::ParamMode::kIn) TRY(CompareBuffer(buffers_[i], exactness[i]));
  }
  return {};
}

int64_t LaunchTrial::ElementAt(const Buffer& buffer, int64_t offset) {
  const std::vector<int64_t>& sizes = Reference(rounded_, Narrow::kRounded, false).SizesOf(buffer.value);
  std::vector<size_t> dims(sizes.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  std::ranges::stable_sort(dims, [&](size_t a, size_t b) { return buffer.strides[a] > buffer.strides[b]; });
  std::vector<int64_t> at(sizes.size());
  for (const size_t k : dims) {
    if (sizes[k] == 1 || buffer.strides[k] <= 0) continue;
    at[k] = offset / buffer.strides[k];
    offset %= buffer.strides[k];
    if (at[k] >= sizes[k]) return -1;
  }
  if (offset != 0) return -1;
  int64_t number = 0;
  for (size_t k = 0; k < sizes.size(); ++k) number = number * sizes[k] + at[k];
  return number;
}

Status LaunchTrial::CompareBuffer(const Buffer& buffer, const loop::Exactness& exactness) {
  const auto size = static_cast<int64_t>(SizeOf(buffer.dtype));
  constexpr int64_t kAtOnce = 4096;
  const bool has_old = buffer.read != kNoValue;
  for (int64_t at = 0; at < buffer.bytes; at += size) {
    const auto is_same = [&](int64_t bytes) {
      return std::memcmp(buffer.before.get() + at, buffer.after.get() + at, static_cast<size_t>(bytes)) == 0;
    };
    if (!is_whole_ && at % kAtOnce == 0 && buffer.bytes - at >= kAtOnce && is_same(kAtOnce)) {
      at += kAtOnce - size;
      continue;
    }
    const int64_t offset = at / size;
    const bool is_written = !is_same(size);
    if (!is_written && !is_whole_) continue;
    const int64_t number = ElementAt(buffer, offset);
    if (number < 0 && !is_written) continue;
    bool is_left = !is_written && !has_old;
    if (is_left && number >= 0) {
      TRY_ASSIGN(const bool is_written_elsewhere, IsWritten(buffer, at, size));
      is_left = !is_written_elsewhere;
    }
    if (number < 0 || is_left) {
      return Error(Code::kInternal,
                   fmt::format("%{} of kernel {}: place {} of its memory is {}", buffer.value, kernel_.name, offset,
                               number < 0 ? "written and no element" : "not written"));
    }
    TRY(CompareElement(buffer, number, offset, exactness));
  }
  return {};
}

Status LaunchTrial::ComputeProduct() {
  const Graph instance = Instantiate(graph_, symbols_);
  std::map<ValueId, Array> operands;
  for (const Buffer& buffer : buffers_) {
    if (buffer.read == kNoValue) continue;
    TRY_ASSIGN(Array array, Array::Of(instance.type(buffer.read)));
    const auto size = static_cast<int64_t>(SizeOf(buffer.dtype));
    const std::vector<int64_t> strides = StridesOf(buffer.read);
    for (int64_t i = 0; i < array.elements; ++i) {
      array.Set(i, loop::ReadElement(buffer.before.get() + PlaceOf(array.sizes, strides, i) * size, buffer.dtype));
    }
    operands.emplace(buffer.read, std::move(array));
  }
  Status missing;
  const Node& node = instance.node(launch_.nodes.front());
  ForEachOperand(node, [&](ValueId value) {
    if (!operands.contains(value))
      missing = Error(Code::kUnsupported, fmt::format("%{} is a view of what it reads", value));
  });
  TRY(std::move(missing));
  uint64_t work = 0;
  TRY_ASSIGN(product_, ProductOf(
                           instance, node, [&](ValueId value) -> const Array& { return operands.at(value); },
                           kReferenceWorkMax, work));
  return product_ ? Status() : Status(Error(Code::kUnsupported, node.op + " has no expression"));
}

Result<double> LaunchTrial::ExpectedAt(Evaluation& of, const Buffer& buffer, int64_t number) {
  if (product_) return product_->NumberAt(number);
  const double expected = AsNumber(of.At(buffer.value, number), buffer.dtype);
  if (of.status()) return expected;
  if (of.status().error().code() != Code::kUnsupported || launch_.nodes.size() != 1) return of.status().error();
  TRY(ComputeProduct());
  return product_->NumberAt(number);
}

double LaunchTrial::TypicalMove(const Buffer& buffer, Evaluation& other) {
  constexpr int64_t kLookedAt = 32;
  const auto [known, is_new] = typical_.emplace(buffer.value, 0);
  if (!is_new) return known->second;
  std::vector<double> distances;
  Evaluation& rounded = Reference(rounded_, Narrow::kRounded, false);
  const int64_t elements = rounded.ElementsOf(buffer.value);
  for (int64_t i = 0; i < elements; i += std::max<int64_t>(1, elements / kLookedAt)) {
    const double by =
        AsNumber(other.At(buffer.value, i), buffer.dtype) - AsNumber(rounded.At(buffer.value, i), buffer.dtype);
    distances.push_back(std::abs(by));
  }
  if (other.status() && rounded.status()) known->second = TypicalOf(std::move(distances));
  return known->second;
}

Status LaunchTrial::CompareElement(const Buffer& buffer, int64_t number, int64_t offset,
                                   const loop::Exactness& exactness) {
  const auto size = static_cast<int64_t>(SizeOf(buffer.dtype));
  const double found = AsNumber(loop::ReadElement(buffer.after.get() + offset * size, buffer.dtype), buffer.dtype);
  TRY_ASSIGN(const double expected, ExpectedAt(Reference(rounded_, Narrow::kRounded, false), buffer, number));
  ++compared_;
  if (found == expected || (std::isnan(found) && std::isnan(expected))) return {};
  const double tolerance = std::max(ToleranceOf(buffer.dtype), exactness.is_single ? ToleranceOf(DType::kF32) : 0);
  bool is_close = false;
  if (product_) {
    is_close = IsClose(found, expected, expected, tolerance);
  } else if (guards::IsFloat(buffer.dtype) && is_narrow_) {
    Evaluation& wide = Reference(wide_, Narrow::kWide, false);
    const double unrounded = AsNumber(wide.At(buffer.value, number), buffer.dtype);
    is_close = IsClose(found, unrounded, expected, tolerance);
    if (!is_close) is_close = IsClose(found, unrounded, expected, tolerance, TypicalMove(buffer, wide));
  } else if (guards::IsFloat(buffer.dtype) && !exactness.is_exact) {
    is_close = IsClose(found, expected, expected, tolerance);
    if (!is_close) {
      Evaluation& nudged = Reference(nudged_rounded_, Narrow::kRounded, true);
      const double moved = AsNumber(nudged.At(buffer.value, number), buffer.dtype);
      is_close = IsClose(found, expected, moved, tolerance);
      if (!is_close) is_close = IsClose(found, expected, moved, tolerance, TypicalMove(buffer, nudged));
    }
  }
  if (is_close) return {};
  return Error(Code::kInternal, fmt::format("%{}, element {}, is {} by kernel {} and {} by its nodes", buffer.value,
                                            number, found, kernel_.name, expected));
}

}  // namespace ingot::compiler
