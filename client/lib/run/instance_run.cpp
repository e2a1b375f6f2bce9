// SPDX-License-Identifier: Apache-2.0
// The walk over a plan: the part of Instance that runs at every call.
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "client/lib/run/generator_state.h"
#include "client/lib/run/guard_table.h"
#include "client/lib/run/instance.h"
#include "client/lib/run/large_pages.h"
#include "client/lib/run/measurement.h"
#include "client/lib/run/tensor_memory.h"
#include "client/lib/threads/aten_threads.h"

namespace ingot::client {
namespace {

// Copies up to this size are done here; larger ones by torch, with its threads.
constexpr int64_t kCopyBytesInline = 256 << 10;

// Operators run below autograd and autocast: the plan is what those would have decided. Version
// counters of what the plan writes are therefore raised by BumpVersions().
struct PlainDispatch {
  at::NoGradGuard no_grad;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

struct ScalarText {
  std::string text;
  double value = 0;
  int64_t integer = 0;
  bool is_float = false;
};

template <typename T>
T Load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

ScalarText ReadElement(const uint8_t* at, at::ScalarType dtype) {
  const auto integer = [](int64_t value) { return ScalarText{fmt::format("{}", value), 0, value, false}; };
  const auto real = [](double value) { return ScalarText{fmt::format("{}", value), value, 0, true}; };
  switch (dtype) {
    case at::kBool: return {Load<uint8_t>(at) != 0 ? "True" : "False", 0, Load<uint8_t>(at) != 0, false};
    case at::kByte: return integer(Load<uint8_t>(at));
    case at::kChar: return integer(Load<int8_t>(at));
    case at::kShort: return integer(Load<int16_t>(at));
    case at::kInt: return integer(Load<int32_t>(at));
    case at::kLong: return integer(Load<int64_t>(at));
    case at::kHalf: return real(Load<at::Half>(at));
    case at::kBFloat16: return real(Load<at::BFloat16>(at));
    case at::kFloat: return real(Load<float>(at));
    default: return real(Load<double>(at));
  }
}

ScalarText ReadExpected(const proto::PlanArg& arg, const std::vector<int64_t>& dims) {
  const bool is_bool =
      arg.kind() == proto::ArgKind::Bool || (arg.kind() == proto::ArgKind::Number && arg.number_kind() == 0);
  if (arg.floats() != nullptr && arg.floats()->size() == 1) {
    return {fmt::format("{}", arg.floats()->Get(0)), arg.floats()->Get(0), 0, true};
  }
  if (arg.ints() == nullptr || arg.ints()->size() != 1) return {"nothing", NAN, 0, true};
  int64_t value = arg.ints()->Get(0);
  if (arg.kind() != proto::ArgKind::Bool) value = dims[static_cast<size_t>(value)];
  if (is_bool) return {value != 0 ? "True" : "False", 0, value != 0, false};
  return {fmt::format("{}", value), 0, value, false};
}

bool Equal(const ScalarText& a, const ScalarText& b) {
  if (!a.is_float && !b.is_float) return a.integer == b.integer;
  const double x = a.is_float ? a.value : static_cast<double>(a.integer);
  const double y = b.is_float ? b.value : static_cast<double>(b.integer);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return x == y && std::signbit(x) == std::signbit(y);  // A program can tell zeros apart.
}

}  // namespace

/// What the program writes of arguments and weights.
template <typename Visit>
void Instance::EachWritten(Visit visit) const {
  if (inputs_ == nullptr) return;
  for (const uint32_t input : image_->written_inputs) visit(*inputs_[input]);
  for (uint32_t i = 0; i < image_->storage_count() && !image_->written_weights.empty(); ++i) {
    const proto::Storage& storage = image_->storage(i);
    if (storage.kind() != proto::StorageKind::Weight) continue;
    for (const uint32_t weight : image_->written_weights) {
      if (weight == storage.index()) visit(owners_[i]);
    }
  }
}

RunOutcome Instance::Run(const at::Tensor* const* inputs, std::vector<at::Tensor>& outputs, RunFailure& failure,
                         const RunOptions& options, std::vector<int64_t>* marks) {
  check_values_ = options.check_values;
  threads_ = 1;
  const bool has_own = image_->native_steps != image_->step_count();  // operators with threads of their own
  if ((!has_parallel_ && !has_own) || at::in_parallel_region()) return RunOnThreads(inputs, outputs, failure, marks);
  const MachineShare::Call share(MachineShare::Instance(),
                                 options.threads > 0 ? options.threads : at::get_num_threads(), options.threads > 0);
  std::optional<AtenThreads> of_operators;
  if (has_own) of_operators.emplace(share.steady_threads());
  threads_ = share.threads();
  IntraOpPool::Call call(IntraOpPool::Instance());
  pool_ = &call;
  return RunOnThreads(inputs, outputs, failure, marks);
}

RunOutcome Instance::RunOnThreads(const at::Tensor* const* inputs, std::vector<at::Tensor>& outputs,
                                  RunFailure& failure, std::vector<int64_t>* marks) {
  with_gradients_ = at::GradMode::is_enabled();
  callers_keys_ = c10::impl::tls_local_dispatch_key_set();
  wrote_ = false;
  Done done = Done::kNo;
  bool traps = false;
  std::optional<GeneratorState> drawn;
  if (image_->may_draw) drawn.emplace();
  try {
    BeginCall(inputs);
    if (!c10::InferenceMode::is_enabled()) {
      EachWritten([](const at::Tensor& tensor) {
        TORCH_CHECK(!tensor.is_inference(), "an inference tensor is written outside of inference mode");
      });
    }
    if (marks == nullptr) [[likely]] {
      done = RunSteps(failure, [] {});
    } else {
      done = RunSteps(failure, [marks] { marks->push_back(MeasuredCall::Now()); });
    }
    const RunOutcome outcome = Finish(done, outputs);
    EndCall();
    if (drawn && outcome != RunOutcome::kServed && done != Done::kRaised) drawn->PutBack();
    return outcome;
  } catch (const WouldTrap& e) {
    failure.why = e.what();
    traps = true;
  } catch (const c10::Error& e) {
    failure.why = e.what_without_backtrace();
  } catch (const std::exception& e) {
    failure.why = e.what();
  }
  outputs.clear();
  if (wrote_) BumpVersions();
  EndCollectives();
  EndCall();
  if (drawn) drawn->PutBack();
  if (traps) return RunOutcome::kTraps;
  return wrote_ ? RunOutcome::kFailedAfterWrite : RunOutcome::kFailed;
}

void Instance::BeginCall(const at::Tensor* const* inputs) {
  inputs_ = inputs;
  for (const uint32_t storage : input_storages_) {
    bases_[storage] = AddressOf(*inputs[image_->storage(storage).index()]);
  }
  for (const uint32_t storage : output_storages_) {
    const uint32_t whole = image_->whole_value[storage];
    if (whole == PlanImage::kMany) {
      owners_[storage] = at::detail::empty_cpu({storage_bytes_[storage]}, at::kByte);
      bases_[storage] = AddressOf(owners_[storage]);
      AskForLargePages(bases_[storage], storage_bytes_[storage]);
      continue;
    }
    const Shape& shape = shapes_[whole];
    SetLate(whole, shape.is_contiguous
                       ? at::Tensor(at::detail::empty_cpu(shape.sizes, shape.dtype))
                       : at::Tensor(at::detail::empty_strided_cpu(shape.sizes, shape.strides, shape.dtype)));
    bases_[storage] = AddressOf(tensors_[whole]);
    AskForLargePages(bases_[storage], storage_bytes_[storage]);
  }
}

void Instance::EndCall() {
  for (const uint32_t value : late_values_) tensors_[value].reset();
  late_values_.clear();
  for (const uint32_t storage : output_storages_) owners_[storage].reset();
  for (const uint32_t storage : returned_storages_) owners_[storage].reset();
  stack_.clear();
  inputs_ = nullptr;
}

RunOutcome Instance::Finish(Done done, std::vector<at::Tensor>& outputs) {
  outputs.clear();
  if (wrote_) BumpVersions();
  if (done == Done::kRaised) {
    EndCollectives();
    return RunOutcome::kRaised;
  }
  if (done == Done::kGuardFailed && !wrote_) return RunOutcome::kValueGuardFailed;
  if (done != Done::kYes) {
    EndCollectives();
    return wrote_ ? RunOutcome::kFailedAfterWrite : RunOutcome::kFailed;
  }
  const auto* ids = image_->manifest->outputs();
  for (uint32_t i = 0; ids != nullptr && i < ids->size(); ++i) outputs.push_back(OutputOf(ids->Get(i)));
  return RunOutcome::kServed;
}

// A call that failed leaves no collective behind that reads or fills memory of the next one.
void Instance::EndCollectives() {
  for (const Call& call : calls_) {
    if (!call.aten->communicates()) continue;
    for (size_t i = 0; i < call.aten->result_count(); ++i) {
      const uint32_t value = call.aten->step().results()->Get(static_cast<uint32_t>(i));
      const at::Tensor& result = owners_[shapes_[value].storage];
      if (!result.defined()) continue;
      try {
        AtenCall::WaitFor(result);
      } catch (const std::exception&) {
        // The call fails already, for a reason that came first.
      }
    }
  }
}

void Instance::BumpVersions() {
  EachWritten([](const at::Tensor& tensor) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  });
}

template <typename Mark>
Instance::Done Instance::RunSteps(RunFailure& failure, Mark mark) {
  std::optional<PlainDispatch> dispatch;
  if (image_->native_steps != image_->step_count()) dispatch.emplace();
  const auto count = static_cast<uint32_t>(image_->step_count());
  for (uint32_t at = 0; at < count; ++at) {
    mark();
    if (image_->writes_visible[at] && !image_->checks_first[at]) wrote_ = true;
    const Done done = RunStep(at, failure);
    if (done != Done::kYes) return done;
    for (const uint32_t storage : image_->frees[at]) Free(storage);
  }
  mark();
  return Done::kYes;
}

Instance::Done Instance::RunStep(uint32_t at, RunFailure& failure) {
  const proto::PlanStep& step = *image_->manifest->steps()->Get(at);
  switch (step.kind()) {
    case proto::StepKind::Kernel: {
      const int32_t status = RunKernel(launches_[index_of_step_[at]]);
      if (image_->writes_visible[at] && status != INGOT_KERNEL_INDEX_OUT_OF_RANGE) wrote_ = true;
      if (status == INGOT_KERNEL_OK) [[likely]]
        return Done::kYes;
      failure.why = status == INGOT_KERNEL_INDEX_OUT_OF_RANGE
                        ? "an index read from a tensor lies outside the indexed dimension"
                        : fmt::format("kernel {} gave status {}",
                                      image_->manifest->kernels()->Get(step.kernel())->symbol()->string_view(), status);
      return Done::kNo;
    }
    case proto::StepKind::Aten: return RunAten(at, calls_[index_of_step_[at]], failure);
    case proto::StepKind::Copy: RunCopy(step); return Done::kYes;
    case proto::StepKind::Guard: return check_values_ ? CheckGuard(step, failure.why) : Done::kYes;
  }
  return Done::kNo;
}

int32_t Instance::RunKernel(Launch& launch) {
  for (size_t i = 0; i < launch.pointers.size(); ++i) {
    launch.buffers[i] = bases_[launch.pointers[i].storage] + launch.pointers[i].offset;
  }
  const IngotCallFrame frame = {launch.buffers.data(), launch.symbols.data(), 0, launch.rows, scratch_};
  if (launch.rows == 0) return INGOT_KERNEL_OK;
  if (launch.rows <= launch.grain || threads_ <= 1) return launch.kernel(&frame);
  struct Shared {
    const Launch& launch;
    const IngotCallFrame& frame;
    std::atomic<int32_t> status = INGOT_KERNEL_OK;
  } shared{launch, frame};
  const auto body = [](void* state, int64_t begin, int64_t end, int seat) {
    auto& of = *static_cast<Shared*>(state);
    IngotCallFrame part = of.frame;
    part.row_begin = begin;
    part.row_end = end;
    part.scratch = static_cast<uint8_t*>(part.scratch) + of.launch.scratch_bytes * seat;
    const int32_t result = of.launch.kernel(&part);
    if (result != INGOT_KERNEL_OK) of.status.store(result, std::memory_order_relaxed);
  };
  const int seats = launch.scratch_bytes > 0 ? scratch_slots_ : IntraOpPool::kThreadsMax;
  pool_->Run(launch.rows, launch.grain, threads_, seats, body, &shared);
  return shared.status.load(std::memory_order_relaxed);
}

void Instance::FillLate(Call& call) {
  const std::function<at::Tensor(uint32_t)> tensor_of = [this](uint32_t value) { return TensorOf(value); };
  for (const AtenCall::Late& late : call.late) {
    stack_[late.argument] =
        late.in_list ? call.aten->MakeList(late.argument, tensor_of) : c10::IValue(TensorOf(late.value));
  }
}

Instance::Done Instance::RunAten(uint32_t at, Call& call, RunFailure& failure) {
  if (call.aten->is_direct() && call.late.empty()) {
    call.aten->Invoke(call.stack);
    return Done::kYes;
  }
  stack_ = call.stack;
  FillLate(call);
  // What is not PyTorch's may ask for the mode or differentiate by itself, as it may in eager's call.
  const at::AutoGradMode mode(with_gradients_ && call.aten->is_foreign());
  std::optional<c10::impl::ForceDispatchKeyGuard> keys;
  if (call.aten->meets_autograd()) keys.emplace(callers_keys_);
  if (call.aten->HasMemories()) return RunInPlace(at, call, failure);
  call.aten->Invoke(stack_);
  const Done done = call.aten->is_direct() ? Done::kYes : TakeResults(at, call, failure.why);
  stack_.clear();
  return done;
}

Instance::Done Instance::TakeResults(uint32_t at, const Call& call, std::string& why) {
  const AtenCall::Mode mode = call.aten->mode();
  if (mode == AtenCall::Mode::kInplace) return Done::kYes;
  const proto::PlanStep& step = call.aten->step();
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < stack_.size(); ++i) {
    c10::IValue& result = stack_[i];
    if (call.aten->GivesBack(i)) continue;
    if (result.isTensor() && result.toTensor().defined())
      tensors.push_back(std::move(result).toTensor());
    else if (result.isTensorList())
      for (const at::Tensor& tensor : result.toTensorVector()) tensors.push_back(tensor);
  }
  if (tensors.size() != call.aten->result_count()) {
    why = fmt::format("{} gave {} tensors, the recording {}", step.op()->string_view(), tensors.size(),
                      call.aten->result_count());
    return Done::kGuardFailed;
  }
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const uint32_t value = step.results()->Get(i);
    if (mode == AtenCall::Mode::kOut) {
      if (tensors[i].sizes() == at::IntArrayRef(shapes_[value].sizes)) continue;
      why = fmt::format("{} changed the size of the memory it was given", step.op()->string_view());
      return Done::kNo;
    }
    if (call.aten->communicates() && !FitsStrides(value, tensors[i])) AtenCall::WaitFor(tensors[i]);
    if (const Done done = TakeResult(value, std::move(tensors[i]), why); done != Done::kYes) {
      why = fmt::format("step {}, {}: {}", at, step.op()->string_view(), why);
      return done;
    }
  }
  return Done::kYes;
}

// Memory that is written again, or given back, while a result may still be in use.
bool Instance::UsesPlannedMemory(const at::Tensor& tensor) const {
  const auto* address = static_cast<const uint8_t*>(tensor.unsafeGetTensorImpl()->unsafe_storage().data());
  const Bytes constants = image_->artifact->constants();
  if (address >= arena_address_ && address < arena_address_ + arena_bytes_) return true;
  if (address >= constants.data() && address < constants.data() + constants.size()) return true;
  // Some operators give their operand back, or a view of it, and do not say so (einsum): to the plan a result is memory
  // of its own.
  for (const uint32_t storage : output_storages_) {
    const auto* const base = static_cast<const uint8_t*>(bases_[storage]);
    if (address >= base && address < base + storage_bytes_[storage]) return true;
  }
  for (const uint32_t storage : returned_storages_) {
    if (owners_[storage].defined() && owners_[storage].storage().is_alias_of(tensor.storage())) return true;
  }
  if (image_->written_inputs.empty() && image_->written_weights.empty()) return false;
  // The result may look at an input or weight that a later step writes.
  for (uint32_t i = 0; i < image_->storage_count(); ++i) {
    const proto::Storage& storage = image_->storage(i);
    const at::Tensor* owner = nullptr;
    if (storage.kind() == proto::StorageKind::Input) owner = inputs_[storage.index()];
    if (storage.kind() == proto::StorageKind::Weight) owner = &owners_[i];
    if (owner != nullptr && owner->storage().is_alias_of(tensor.storage())) return true;
  }
  return false;
}

// Other results are copied to the strides that the plan counts on.
bool Instance::FitsStrides(uint32_t value, const at::Tensor& tensor) const {
  const Shape& shape = shapes_[value];
  if (shape.elements == 0) return true;
  if (tensor.sizes() != at::IntArrayRef(shape.sizes)) return false;
  for (size_t i = 0; i < shape.sizes.size(); ++i) {
    if (shape.sizes[i] != 1 && tensor.stride(static_cast<int64_t>(i)) != shape.strides[i]) return false;
  }
  return true;
}

Instance::Done Instance::TakeResult(uint32_t value, at::Tensor tensor, std::string& why) {
  const Shape& shape = shapes_[value];
  if (tensor.scalar_type() != shape.dtype || tensor.sizes() != at::IntArrayRef(shape.sizes)) {
    why = fmt::format("a result of sizes [{}], the recording had [{}]", fmt::join(tensor.sizes().vec(), ", "),
                      fmt::join(shape.sizes, ", "));
    return Done::kGuardFailed;
  }
  if (image_->storage(shape.storage).kind() != proto::StorageKind::Returned)
    return CopyResult(shape, std::move(tensor), TensorOf(value), why);
  if (!FitsStrides(value, tensor) || !tensor.device().is_cpu() || tensor.layout() != at::kStrided || tensor.is_conj() ||
      tensor.is_neg() || UsesPlannedMemory(tensor)) {
    at::Tensor copy = at::detail::empty_strided_cpu(shape.sizes, shape.strides, shape.dtype);
    if (const Done done = CopyResult(shape, std::move(tensor), copy, why); done != Done::kYes) return done;
    tensor = std::move(copy);
  }
  bases_[shape.storage] = AddressOf(tensor);
  owners_[shape.storage] = tensor;
  SetLate(value, std::move(tensor));
  return Done::kYes;
}

// What an expanded dim repeats is written once, which takes a result that repeats it too.
Instance::Done Instance::CopyResult(const Shape& shape, at::Tensor tensor, at::Tensor to, std::string& why) {
  for (size_t i = 0; i < shape.sizes.size(); ++i) {
    if (shape.elements == 0 || shape.strides[i] != 0 || shape.sizes[i] == 1) continue;
    const auto dim = static_cast<int64_t>(i);
    if (tensor.layout() != at::kStrided || tensor.stride(dim) != 0) {
      why = fmt::format("a result that repeats nothing along dim {}, the recording's did", dim);
      return Done::kGuardFailed;
    }
    to = to.narrow(dim, 0, 1);
    tensor = tensor.narrow(dim, 0, 1);
  }
  to.copy_(tensor);
  return Done::kYes;
}

void Instance::RunCopy(const proto::PlanStep& step) {
  const uint32_t to = step.results()->Get(0);
  const auto from = static_cast<uint32_t>(step.args()->Get(0)->ints()->Get(0));
  const Shape& target = shapes_[to];
  const Shape& source = shapes_[from];
  const int64_t item = static_cast<int64_t>(c10::elementSize(target.dtype));
  if (target.is_contiguous && source.is_contiguous && target.dtype == source.dtype &&
      target.elements == source.elements && target.elements * item <= kCopyBytesInline) {
    if (target.elements == 0) return;
    std::memmove(bases_[target.storage] + target.offset * item, bases_[source.storage] + source.offset * item,
                 static_cast<size_t>(target.elements * item));
    return;
  }
  at::Tensor into = TensorOf(to);
  into.copy_(TensorOf(from));
}

Instance::Done Instance::CheckGuard(const proto::PlanStep& step, std::string& why) {
  const Shape& shape = shapes_[static_cast<size_t>(step.args()->Get(0)->ints()->Get(0))];
  const ScalarText expected = ReadExpected(*step.args()->Get(1), dims_);
  if (shape.elements != 1 || c10::isComplexType(shape.dtype)) {
    why = "value guard: the guarded value is not one real number";
    return Done::kGuardFailed;
  }
  const int64_t item = static_cast<int64_t>(c10::elementSize(shape.dtype));
  const ScalarText found = ReadElement(bases_[shape.storage] + shape.offset * item, shape.dtype);
  if (Equal(found, expected)) return Done::kYes;
  why = fmt::format("value guard: {}, the recording saw {}", found.text, expected.text);
  return Done::kGuardFailed;
}

const at::Tensor& Instance::TensorOf(uint32_t value) {
  if (!tensors_[value].defined()) {
    if (!FixedTensor(value).defined()) SetLate(value, MakeTensor(value));
  }
  return tensors_[value];
}

at::Tensor Instance::OutputOf(uint32_t value) {
  const at::Tensor& tensor = TensorOf(value);
  // What shares memory with an argument or a weight is a view of it to autograd, which keeps their
  // versions together and gives what requires grad a view that does, in every mode.
  const Shape& shape = shapes_[value];
  const proto::Storage& storage = image_->storage(shape.storage);
  const at::Tensor* const owner = storage.kind() == proto::StorageKind::Input    ? inputs_[storage.index()]
                                  : storage.kind() == proto::StorageKind::Weight ? &owners_[shape.storage]
                                                                                 : nullptr;
  if (owner != nullptr && owner->defined() && owner->scalar_type() == tensor.scalar_type()) {
    return owner->as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  }
  if (tensor.use_count() == 1 && !is_fixed_[value]) return tensor;
  // An input, a weight, a view of one, an output before this one: what a caller does to the metadata of
  // its result must not reach them.
  at::TensorImpl* const shared = tensor.unsafeGetTensorImpl();
  return at::Tensor(shared->shallow_copy_and_detach(shared->version_counter(), /*allow_tensor_metadata_change=*/true));
}

void Instance::SetLate(uint32_t value, at::Tensor tensor) {
  tensors_[value] = std::move(tensor);
  late_values_.push_back(value);
}

void Instance::Free(uint32_t storage) {
  owners_[storage].reset();
  for (const uint32_t value : image_->values_of[storage]) tensors_[value].reset();
}

}  // namespace ingot::client
