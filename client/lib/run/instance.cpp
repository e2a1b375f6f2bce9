// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/instance.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "client/lib/run/guard_table.h"
#include "client/lib/run/large_pages.h"
#include "client/lib/run/tensor_memory.h"
#include "guards/bounds.h"

namespace ingot::client {
namespace {

constexpr int64_t kAlignment = 64;
// Work of one task in elements: below it, handing rows to another thread costs more than it saves.
constexpr int64_t kGrainElements = 32 << 10;

// Processors fetch ahead within a page: what one thread walks through must not share one with another thread's.
constexpr int64_t kPage = 4096;

int64_t AlignUp(int64_t bytes, int64_t alignment = kAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

int64_t ItemSize(at::ScalarType dtype) { return static_cast<int64_t>(c10::elementSize(dtype)); }

bool IsContiguous(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

}  // namespace

Arena::~Arena() { std::free(address_); }

Status Arena::Reserve(int64_t bytes) {
  if (bytes <= bytes_) return {};
  const int64_t size = AlignUp(bytes);
  void* memory = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
  if (memory == nullptr) {
    return Error(Code::kExhausted, fmt::format("no memory for an arena of {} bytes", size));
  }
  AskForLargePages(memory, size);
  std::free(address_);
  address_ = static_cast<uint8_t*>(memory);
  bytes_ = size;
  return {};
}

Instance::Instance(std::shared_ptr<const PlanImage> image, std::span<const int64_t> symbols)
    : image_(std::move(image)), symbols_(symbols.begin(), symbols.end()) {}

Instance::~Instance() = default;

Result<std::unique_ptr<Instance>> Instance::Make(std::shared_ptr<const PlanImage> image,
                                                 std::span<const int64_t> symbols, Arena& arena,
                                                 const std::vector<at::Tensor>& weights) {
  if (!image->conditions.Holds(symbols)) return Error(Code::kInvalid, image->conditions.Explain(symbols));
  std::unique_ptr<Instance> instance(new Instance(std::move(image), symbols));
  try {
    TRY(instance->EvaluateDims());
    TRY(instance->EvaluateShapes());
    TRY(instance->CheckExtents());
    instance->calls_.reserve(instance->image_->calls.size());
    TRY(instance->PlaceArena(arena));
    instance->BindFixed(weights);
    TRY(instance->PrepareSteps());
  } catch (const std::exception& e) {
    return Error(Code::kIncompatible, fmt::format("arguments of an operator: {}", e.what()));
  }
  return instance;
}

/// Every number of the plan that a run uses, exactly. kInvalid: one leaves 64 bits at these sizes, where eager raises.
Status Instance::EvaluateDims() {
  const Error beyond(Code::kInvalid, "a number of the program leaves 64 bits at these sizes");
  const auto value_of = [this](uint16_t s) {
    return s < symbols_.size() ? std::optional<int64_t>(symbols_[s]) : std::nullopt;
  };
  if (std::ranges::any_of(symbols_, [](int64_t size) { return size > guards::kSymbolMax; })) return beyond;
  std::vector<bool> is_exact;  // Not those that kernels have over symbols of their own.
  for (const guards::Dim& dim : image_->dims) {
    const std::optional<int64_t> value = dim.EvalExactly(value_of);
    dims_.push_back(value.value_or(0));
    is_exact.push_back(value.has_value());
  }
  const auto all = [&](const auto* places) {
    bool are = true;
    for (uint32_t i = 0; places != nullptr && i < places->size(); ++i)
      are = are && is_exact[static_cast<size_t>(places->Get(i))];
    return are;
  };
  bool fits = true;
  for (uint32_t id = 0; id < image_->value_count(); ++id) {
    const proto::Value& value = image_->value(id);
    fits = fits && all(value.sizes()) && all(value.strides()) && is_exact[value.offset()];
  }
  for (uint32_t i = 0; i < image_->storage_count(); ++i) fits = fits && is_exact[image_->storage(i).bytes_dim()];
  for (uint32_t i = 0; i < image_->step_count(); ++i) {
    const proto::PlanStep& step = *image_->manifest->steps()->Get(i);
    fits = fits && all(step.symbols());
    for (uint32_t k = 0; step.args() != nullptr && k < step.args()->size(); ++k) {
      const proto::PlanArg& arg = *step.args()->Get(k);
      const bool is_number = arg.kind() == proto::ArgKind::Number && arg.number_kind() < 2;
      const bool has_dims = is_number || arg.kind() == proto::ArgKind::Int || arg.kind() == proto::ArgKind::IntList;
      fits = fits && (!has_dims || all(arg.ints()));
    }
  }
  return fits ? Status() : beyond;
}

Status Instance::EvaluateShapes() {
  const auto at = [&](uint32_t dim) { return dims_[dim]; };
  shapes_.resize(image_->value_count());
  for (uint32_t id = 0; id < shapes_.size(); ++id) {
    const proto::Value& value = image_->value(id);
    Shape& shape = shapes_[id];
    const uint32_t rank = value.sizes() == nullptr ? 0 : value.sizes()->size();
    for (uint32_t i = 0; i < rank; ++i) {
      shape.sizes.push_back(at(value.sizes()->Get(i)));
      shape.strides.push_back(at(value.strides()->Get(i)));
      if (shape.sizes.back() < 0 || shape.strides.back() < 0 ||
          __builtin_mul_overflow(shape.elements, shape.sizes.back(), &shape.elements)) {
        return Error(Code::kCorrupt, fmt::format("value {}: size {} and stride {} at dim {}", id, shape.sizes.back(),
                                                 shape.strides.back(), i));
      }
    }
    shape.offset = at(value.offset());
    shape.dtype = ScalarTypeOf(value.dtype());
    shape.storage = value.storage();
    shape.is_contiguous = IsContiguous(shape.sizes, shape.strides);
  }
  for (uint32_t i = 0; i < image_->storage_count(); ++i) {
    storage_bytes_.push_back(std::max<int64_t>(0, at(image_->storage(i).bytes_dim())));
  }
  return {};
}

// Every element of every value lies in its storage. For inputs and weights the guards make sure
// that the tensor has the size and strides of the bound value, which the storage's bytes come from.
Status Instance::CheckExtents() const {
  for (uint32_t id = 0; id < shapes_.size(); ++id) {
    const Shape& shape = shapes_[id];
    if (shape.elements == 0) continue;
    int64_t last = shape.offset;
    bool overflow = shape.offset < 0;
    for (size_t i = 0; i < shape.sizes.size(); ++i) {
      int64_t step = 0;
      overflow |= __builtin_mul_overflow(shape.sizes[i] - 1, shape.strides[i], &step) ||
                  __builtin_add_overflow(last, step, &last);
    }
    const int64_t item = ItemSize(shape.dtype);
    if (overflow || last >= storage_bytes_[shape.storage] / item) {
      return Error(Code::kCorrupt, fmt::format("value {} ends at element {} of a storage of {} bytes", id, last,
                                               storage_bytes_[shape.storage]));
    }
  }
  const auto* constants = image_->manifest->constants();
  for (uint32_t i = 0; constants != nullptr && i < constants->size(); ++i) {
    const uint32_t storage = image_->value(constants->Get(i)->value()).storage();
    if (storage_bytes_[storage] > static_cast<int64_t>(constants->Get(i)->bytes())) {
      return Error(Code::kCorrupt, fmt::format("constant {} is shorter than its value", i));
    }
  }
  return {};
}

Status Instance::PlaceArena(Arena& arena) {
  std::vector<kernels::Lifetime> lifetimes;
  std::vector<uint32_t> planned;
  for (uint32_t i = 0; i < image_->storage_count(); ++i) {
    const proto::Storage& storage = image_->storage(i);
    if (storage.kind() != proto::StorageKind::Arena) continue;
    lifetimes.push_back({storage_bytes_[i], storage.first_step(), storage.last_step()});
    planned.push_back(i);
  }
  TRY_ASSIGN(const kernels::ArenaLayout layout, image_->LayoutOf(lifetimes, symbols_));
  int64_t scratch_bytes = 0;
  for (uint32_t i = 0; i < image_->step_count(); ++i) {
    const proto::PlanStep& step = *image_->manifest->steps()->Get(i);
    if (step.kind() != proto::StepKind::Kernel) continue;
    Launch& launch = launches_.emplace_back();
    TRY(PrepareLaunch(step, launch));
    has_parallel_ |= launch.rows > launch.grain;
    if (launch.scratch_bytes > 0 && launch.rows > launch.grain) {
      launch.scratch_bytes = AlignUp(launch.scratch_bytes, kPage);
      scratch_slots_ = std::max(at::get_num_threads(), at::intraop_default_num_threads());
    }
    scratch_bytes = std::max(scratch_bytes, launch.scratch_bytes);
  }
  arena_bytes_ = layout.bytes;
  TRY(arena.Reserve(layout.bytes + kPage + scratch_bytes * scratch_slots_));
  arena_address_ = arena.address();
  const auto end = reinterpret_cast<int64_t>(arena.address() + layout.bytes);
  scratch_ = arena.address() + layout.bytes + (AlignUp(end, kPage) - end);
  bases_.assign(image_->storage_count(), nullptr);
  borrowed_.resize(image_->storage_count());
  for (size_t i = 0; i < planned.size(); ++i) {
    bases_[planned[i]] = arena.address() + layout.offsets[i];
    borrowed_[planned[i]] = BorrowMemory(bases_[planned[i]], storage_bytes_[planned[i]]);
  }
  return {};
}

Status Instance::PrepareLaunch(const proto::PlanStep& step, Launch& launch) {
  for (uint32_t i = 0; step.symbols() != nullptr && i < step.symbols()->size(); ++i) {
    launch.symbols.push_back(dims_[step.symbols()->Get(i)]);
  }
  const uint32_t number = image_->KernelFor(step.kernel(), launch.symbols);
  const proto::Kernel& kernel = *image_->manifest->kernels()->Get(number);
  launch.kernel = image_->artifact->kernel(number);
  // Beyond 64 bits a number is none that a launch may have.
  const auto at = [&](uint32_t dim) {
    const auto of_symbol = [&](uint16_t s) {
      return s < launch.symbols.size() ? std::optional<int64_t>(launch.symbols[s]) : std::nullopt;
    };
    return image_->dims[dim].EvalExactly(of_symbol).value_or(-1);
  };
  launch.rows = at(kernel.rows());
  for (uint32_t i = 0; kernel.tiled() != nullptr && i < kernel.tiled()->size(); ++i) {
    const proto::TiledDim& tiled = *kernel.tiled()->Get(i);
    const int64_t tiles = (at(tiled.extent()) + tiled.tile() - 1) / tiled.tile();
    if (__builtin_mul_overflow(launch.rows, tiles, &launch.rows)) launch.rows = -1;
  }
  launch.scratch_bytes = at(kernel.scratch_bytes());
  const int64_t row_elements = at(kernel.row_elements());
  if (launch.rows < 0 || launch.scratch_bytes < 0 || launch.scratch_bytes > int64_t{1} << 40) {
    return Error(Code::kCorrupt, fmt::format("kernel {} with {} rows and {} bytes of scratch",
                                             kernel.symbol()->string_view(), launch.rows, launch.scratch_bytes));
  }
  launch.scratch_bytes = AlignUp(launch.scratch_bytes);
  launch.grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, row_elements));
  for (uint32_t i = 0; step.buffers() != nullptr && i < step.buffers()->size(); ++i) {
    const Shape& shape = shapes_[step.buffers()->Get(i)];
    launch.pointers.push_back({shape.storage, shape.offset * ItemSize(shape.dtype)});
  }
  launch.buffers.resize(launch.pointers.size());
  return {};
}

void Instance::BindFixed(const std::vector<at::Tensor>& weights) {
  owners_.resize(image_->storage_count());
  tensors_.resize(shapes_.size());
  is_fixed_.assign(shapes_.size(), false);
  for (uint32_t i = 0; i < image_->storage_count(); ++i) {
    const proto::Storage& storage = image_->storage(i);
    switch (storage.kind()) {
      case proto::StorageKind::Input: input_storages_.push_back(i); break;
      case proto::StorageKind::Output: output_storages_.push_back(i); break;
      case proto::StorageKind::Returned: returned_storages_.push_back(i); break;
      case proto::StorageKind::Arena: break;
      case proto::StorageKind::Weight:
        owners_[i] = weights[storage.index()];
        bases_[i] = AddressOf(owners_[i]);
        break;
      case proto::StorageKind::Constant: {
        const uint64_t offset = image_->manifest->constants()->Get(storage.index())->offset();
        bases_[i] = const_cast<uint8_t*>(image_->artifact->constants().data()) + offset;
        borrowed_[i] = BorrowMemory(bases_[i], storage_bytes_[i]);
        break;
      }
    }
  }
}

// The tensor of a value whose memory is the same for each call; undefined for others.
at::Tensor Instance::FixedTensor(uint32_t value) {
  const proto::StorageKind kind = image_->storage(shapes_[value].storage).kind();
  if (kind != proto::StorageKind::Arena && kind != proto::StorageKind::Weight && kind != proto::StorageKind::Constant) {
    return {};
  }
  if (!tensors_[value].defined()) {
    tensors_[value] = MakeTensor(value);
    is_fixed_[value] = true;
  }
  return tensors_[value];
}

Status Instance::PrepareSteps() {
  const std::function<at::Tensor(uint32_t)> tensor_of = [this](uint32_t value) { return FixedTensor(value); };
  uint32_t launches = 0;
  for (uint32_t i = 0; i < image_->step_count(); ++i) {
    const proto::PlanStep& step = *image_->manifest->steps()->Get(i);
    index_of_step_.push_back(0);
    if (step.kind() == proto::StepKind::Kernel) index_of_step_.back() = launches++;
    if (step.kind() != proto::StepKind::Aten) continue;
    index_of_step_.back() = static_cast<uint32_t>(calls_.size());
    Call& call = calls_.emplace_back();
    call.aten = &image_->calls[static_cast<size_t>(image_->call_of_step[i])];
    TRY_ASSIGN(call.stack, call.aten->MakeStack(dims_, tensor_of, call.late));
  }
  return {};
}

at::Tensor Instance::MakeTensor(uint32_t value) {
  const Shape& shape = shapes_[value];
  const proto::Storage& storage = image_->storage(shape.storage);
  if (borrowed_[shape.storage]) {
    return WindowOf(borrowed_[shape.storage], shape.dtype, shape.sizes, shape.strides, shape.offset);
  }
  if (storage.kind() == proto::StorageKind::Output) {
    return WindowOf(owners_[shape.storage].storage(), shape.dtype, shape.sizes, shape.strides, shape.offset);
  }
  const at::Tensor& owner =
      storage.kind() == proto::StorageKind::Input ? *inputs_[storage.index()] : owners_[shape.storage];
  if (shape.offset == 0 && owner.sizes() == at::IntArrayRef(shape.sizes) &&
      owner.strides() == at::IntArrayRef(shape.strides)) {
    return owner;
  }
  return WindowOf(owner.storage(), shape.dtype, shape.sizes, shape.strides, owner.storage_offset() + shape.offset);
}

}  // namespace ingot::client
