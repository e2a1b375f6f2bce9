// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>
#include <algorithm>

#include <pthread.h>

#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "client/native/trace/call_checks.h"
#include "client/native/trace/deferred_run.h"
#include "client/native/trace/mem_pool.h"
#include "client/native/trace/step_writer.h"

namespace ingot::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr c10::DispatchKey kModeKey = Recorder::kModeKey;

uint64_t NanosecondsSince(Clock::time_point start) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

std::string DescribeForeign(const KnownTensor& known) {
  return "tensor " + TextOf(known.held) + ", first used by " + known.first_use;
}

}  // namespace

struct Recorder::State {
  StepWriter writer;
  std::optional<Refusal> refusal;
  std::optional<DeferredRun> deferred;
  Where where;
  std::function<void()> on_value;  ///< a survey's
  std::function<void(const at::Tensor&)> on_write;
  std::function<std::string()> handler;
  std::optional<std::string> handled;  ///< an operator that is not PyTorch's, and what would handle its exception
  std::vector<std::pair<uint32_t, std::string>> inputs;
  std::vector<uint32_t> weights;
  std::optional<SizeNotes> sizes;
  Clock::time_point started;
  uint64_t eager_ns = 0;
  std::optional<MemPool> memory;  // while recording
  bool recording = false;  // between Start() and Stop()
  bool finished = false;   // Finish() has taken the buffer

  void Refuse(Refusal why);
  bool noting() const { return recording && !refusal; }
  void Note(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack);
  void NoteHandler(const PendingStep& step);

  Status CheckBindings() const;
  Result<std::vector<uint32_t>> OutputValues(const std::vector<at::Tensor>& outputs) const;
  Buffer Write(const std::string& name, const std::vector<uint32_t>& outputs);
};

namespace {

thread_local std::shared_ptr<Recorder::State> active;
thread_local int operators_open = 0;

struct OpenOperator {
  OpenOperator() { ++operators_open; }
  ~OpenOperator() { --operators_open; }
};

/// Whether Python sees values by what an operator gives.
bool ShowsValues(const c10::OperatorHandle& op) {
  if (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) return true;
  return std::ranges::any_of(op.schema().returns(), [](const c10::Argument& result) {
    const c10::TypeKind kind = result.type()->kind();
    return kind == c10::TypeKind::NumberType || kind == c10::TypeKind::BoolType || kind == c10::TypeKind::FloatType;
  });
}

void OnOperator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kModeKey);
  const c10::impl::LocalDispatchKeySet tls = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ExcludeDispatchKeyGuard guard(kModeKey);
  const std::shared_ptr<Recorder::State>& state = active;
  if (state != nullptr && state->on_value) {
    if (ShowsValues(op)) state->on_value();
    op.redispatchBoxed(below, stack);
    return;
  }
  if (state == nullptr || !state->noting() || IsInsideTensorConstructor(tls)) {
    op.redispatchBoxed(below, stack);
    return;
  }
  if (auto refusal = UnsupportedMode(tls)) {
    refusal->detail += " at " + op.schema().name();
    state->Refuse(std::move(*refusal));
    op.redispatchBoxed(below, stack);
    return;
  }
  state->Note(op, below, stack);
}

// For the life of the process. Gives the reason when somebody else owns the key.
std::optional<std::string> RegisterFallback() {
  try {
    // Never destroyed: the dispatcher must not call into a library that is gone.
    static auto* library = new torch::Library(torch::Library::IMPL, "_", kModeKey, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&OnOperator>());
    return std::nullopt;
  } catch (const std::exception& e) {
    return e.what();
  }
}

// It makes an entry for each of the dispatcher's operators, which takes milliseconds: begun by the
// first who asks, beside it.
const std::shared_future<std::optional<std::string>>& Registration() {
  static const std::shared_future<std::optional<std::string>> registration = [] {
    // A child process would have what the thread had locked, without the thread.
    pthread_atfork([] { Registration().wait(); }, nullptr, nullptr);
    return std::async(std::launch::async | std::launch::deferred, RegisterFallback).share();
  }();
  return registration;
}

}  // namespace

// Nothing is left to note, so the key goes at once: operators that Python dispatches itself
// (higher-order ones) know nothing of it and would fail.
void Recorder::State::Refuse(Refusal why) {
  if (!refusal && recording && where) why.detail = where(std::move(why.detail));
  if (!refusal) refusal = std::move(why);
  if (active.get() == this) c10::impl::tls_set_dispatch_key_included(kModeKey, false);
  if (deferred) deferred->Complete();
}

void Recorder::State::Note(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  if (writer.Facts(op).is_quiet) {
    op.redispatchBoxed(below, stack);
    return;
  }
  const size_t count = op.schema().arguments().size();
  PendingStep step;
  if (auto refusal = writer.Begin(op, torch::jit::last(*stack, count), step)) {
    Refuse(std::move(*refusal));
    op.redispatchBoxed(below, stack);
    return;
  }
  if (step.facts->is_opaque) NoteHandler(step);
  for (size_t i = 0; on_write && i < step.written.size(); ++i) {
    if (!writer.tensors().IsStorageOfStep(step.written[i].first)) on_write(step.written[i].first);
  }
  const Clock::time_point start = Clock::now();
  try {
    const OpenOperator open;
    deferred ? deferred->Call(op, below, stack, *step.facts) : op.redispatchBoxed(below, stack);
  } catch (...) {
    Refuse({"exception", step.facts->name + " raised an exception"});
    throw;
  }
  const uint64_t eager = NanosecondsSince(start);
  if (!noting()) return;
  const auto results = torch::jit::last(*stack, op.schema().returns().size());
  if (auto refusal = writer.End(step, results, eager)) Refuse(std::move(*refusal));
}

/// A native call passes on what an operator raises where it cannot run eagerly from the start, past every handler of
/// the program's that lies between: where it has written something.
void Recorder::State::NoteHandler(const PendingStep& step) {
  if (handled || !handler) return;
  std::string found = handler();
  if (found.empty()) return;
  handled = step.facts->name + ", whose exception " + found + " would handle";
  if (!step.written.empty()) Refuse({"custom-op-handled", *handled});
}

void Recorder::Prepare() { Registration(); }

Recorder::Recorder(std::optional<int64_t> deferred_above, Where where) : state_(std::make_shared<State>()) {
  state_->where = std::move(where);
  if (deferred_above) state_->deferred.emplace(*deferred_above);
  if (const auto& error = Registration().get()) state_->Refuse({"busy-key", *error});
}

Recorder::~Recorder() {
  if (state_->recording) Stop();
}

void Recorder::DeclareInput(const at::Tensor& tensor, std::string name) {
  if (auto refusal = UnsupportedTensor(tensor)) {
    state_->Refuse({refusal->name, "input '" + name + "': " + refusal->detail});
    return;
  }
  TensorTable& tensors = state_->writer.tensors();
  const auto known = tensors.Find(tensor);
  const uint32_t value = known ? *known : tensors.Add(tensor, Origin::kInput);
  state_->inputs.emplace_back(value, std::move(name));
}

void Recorder::DeclareGroup(std::string name, std::string identity) {
  state_->writer.DeclareGroup(std::move(name), std::move(identity));
}

const std::vector<std::string>& Recorder::Groups() const { return state_->writer.used_groups(); }

void Recorder::Start() {
  if (active != nullptr) {
    state_->Refuse({"nested", "a recording is running on this thread"});
    return;
  }
  active = state_;
  if (!state_->deferred) state_->memory.emplace();
  state_->recording = true;
  state_->started = Clock::now();
  c10::impl::tls_set_dispatch_key_included(kModeKey, true);
}

void Recorder::Stop() {
  if (!state_->recording) return;
  state_->recording = false;
  state_->memory.reset();
  state_->eager_ns = NanosecondsSince(state_->started);
  // Another thread has nothing to switch off: the fallback there finds the state not recording.
  if (active != state_) return;
  c10::impl::tls_set_dispatch_key_included(kModeKey, false);
  active.reset();
}

void Recorder::TellOfWrites(std::function<void(const at::Tensor&)> on_write) { state_->on_write = std::move(on_write); }

void Recorder::AskForHandlers(std::function<std::string()> handler) { state_->handler = std::move(handler); }

void Recorder::Survey(std::function<void()> on_value) { state_->on_value = std::move(on_value); }

void Recorder::Noting(const std::function<void()>& run) {
  // After the run this thread is free again, unless another recording has begun.
  const bool is_begun = !state_->recording && !state_->refusal && !state_->finished && active == nullptr;
  if (is_begun) {
    active = state_;
    state_->recording = true;
    c10::impl::tls_set_dispatch_key_included(kModeKey, true);
  }
  try {
    run();
  } catch (const std::exception& e) {
    Refuse("internal", e.what());
  }
  if (is_begun) {
    state_->recording = false;
    c10::impl::tls_set_dispatch_key_included(kModeKey, false);
    active.reset();
  }
}

bool Recorder::TakeBackRead() { return !state_->refusal && state_->recording && state_->writer.TakeBackRead(); }

std::pair<at::Tensor, std::optional<IntLog::Entry>> Recorder::NoteSize(int64_t size) {
  const size_t at = int_log().ints.size() + 1;
  at::Tensor made;
  Noting([&] { made = at::empty({0, size}, at::kFloat); });
  if (int_log().ints.size() <= at) return {made, std::nullopt};
  return {made, int_log().ints[at]};
}

std::pair<at::Tensor, std::optional<IntLog::Entry>> Recorder::NoteNumber(int64_t number) {
  const size_t at = int_log().ints.size();
  at::Tensor made;
  Noting([&] { made = at::full({}, number, at::kLong); });
  if (int_log().ints.size() <= at) return {made, std::nullopt};
  return {made, int_log().ints[at]};
}

bool Recorder::CompleteIfKept() {
  const bool kept = state_->deferred && state_->deferred->IsKept();
  if (kept) state_->deferred->Complete();
  return kept;
}

bool Recorder::recording() const { return state_->recording; }

void Recorder::NoteAlias(const at::Tensor& tensor, const at::Tensor& alias) {
  if (!state_->recording || state_->refusal) return;
  const at::Tensor made = tensor.detach();
  TensorTable& tensors = state_->writer.tensors();
  if (tensors.Find(made) && !tensors.Find(alias)) tensors.Replace(made, alias);
}

void Recorder::Refuse(std::string name, std::string detail) { state_->Refuse({std::move(name), std::move(detail)}); }

const std::optional<Refusal>& Recorder::refusal() const { return state_->refusal; }

std::vector<ForeignOperator> Recorder::ForeignOperators() const {
  std::vector<ForeignOperator> found = state_->writer.ForeignOperators();
  std::ranges::sort(found, {}, &ForeignOperator::name);
  return found;
}

bool Recorder::IsInsideOperator() { return operators_open > 0; }

const IntLog& Recorder::int_log() const { return state_->writer.int_log(); }

void Recorder::NoteSizes(SizeNotes notes) { state_->sizes = std::move(notes); }

size_t Recorder::step_count() const { return state_->writer.steps().size(); }

bool Recorder::MakesUninitialized() const {
  return std::ranges::any_of(int_log().steps, [](const std::string* name) {
    return name->starts_with("aten::empty") || name->starts_with("aten::new_empty");
  });
}

std::vector<Foreign> Recorder::Foreigns() const {
  const TensorTable& tensors = state_->writer.tensors();
  std::vector<Foreign> foreigns;
  for (uint32_t value = 0; value < tensors.size(); ++value) {
    const KnownTensor& known = tensors.at(value);
    if (known.origin != Origin::kForeign || known.binding != Binding::kNone) continue;
    foreigns.push_back({value, known.held, tensors.IsWritten(value)});
  }
  return foreigns;
}

std::optional<uint32_t> Recorder::ValueOf(const at::Tensor& tensor) const {
  return state_->writer.tensors().Find(tensor);
}

uint32_t Recorder::NoteOutput(const at::Tensor& tensor) {
  TensorTable& tensors = state_->writer.tensors();
  if (const auto known = tensors.Find(tensor)) return *known;
  if (auto refusal = UnsupportedTensor(tensor)) {
    state_->Refuse({refusal->name, "an output: " + refusal->detail});
    return 0;
  }
  if (tensors.IsStorageOfStep(tensor)) {
    state_->Refuse({"hidden-alias", "an output shares memory with a result, and no operator made it"});
    return 0;
  }
  const uint32_t value = tensors.Add(tensor, Origin::kForeign);
  tensors.at(value).first_use = "the outputs";
  return value;
}

void Recorder::DeclareWeight(uint32_t value, std::string name) {
  TensorTable& tensors = state_->writer.tensors();
  if (value >= tensors.size()) return;
  KnownTensor& known = tensors.at(value);
  if (known.binding != Binding::kNone || known.origin != Origin::kForeign) return;
  known.binding = Binding::kWeight;
  known.name = std::move(name);
  state_->weights.push_back(value);
}

void Recorder::DeclareFetched(uint32_t value, std::string name) {
  TensorTable& tensors = state_->writer.tensors();
  if (value >= tensors.size()) return;
  KnownTensor& known = tensors.at(value);
  if (known.binding != Binding::kNone || known.origin != Origin::kForeign) return;
  known.binding = Binding::kInput;
  state_->inputs.emplace_back(value, std::move(name));
}

Status Recorder::DeclareConstant(uint32_t value, size_t bytes_max) {
  TensorTable& tensors = state_->writer.tensors();
  if (value >= tensors.size() || tensors.at(value).origin != Origin::kForeign) {
    return Error(Code::kInvalid, "value " + std::to_string(value) + " is not a foreign tensor");
  }
  KnownTensor& known = tensors.at(value);
  const std::string what = DescribeForeign(known);
  if (known.binding != Binding::kNone) return Error(Code::kInvalid, what + ", is bound already");
  if (!known.sizes.empty()) {
    return Error(Code::kUnsupported, what +
                                         ", has no origin: no operator of the recording made it "
                                         "and no path leads to it");
  }
  if (known.held.nbytes() > bytes_max) {
    return Error(Code::kExhausted,
                 what + ", is larger than a constant may be (" + std::to_string(bytes_max) + " bytes)");
  }
  if (!known.elements) {
    if (tensors.IsWritten(value)) {
      return Error(Code::kUnsupported, what + ", was written before its elements were copied");
    }
    const c10::impl::ExcludeDispatchKeyGuard guard(kModeKey);
    known.elements = CopyElements(known.held);
  }
  known.binding = Binding::kConstant;
  return {};
}

Result<Buffer> Recorder::Finish(const std::string& name, const std::vector<at::Tensor>& outputs) {
  State& state = *state_;
  if (state.handled && state.writer.tensors().AnyFromBeforeIsWritten())
    state.Refuse({"custom-op-handled", *state.handled});
  if (state.refusal) {
    return Error(Code::kUnsupported, state.refusal->name + ": " + state.refusal->detail);
  }
  if (state.recording) return Error(Code::kInvalid, "the recording is still running");
  if (state.finished) return Error(Code::kInvalid, "the recording was already taken");
  TRY(state.CheckBindings());
  TRY_ASSIGN(const std::vector<uint32_t> output_values, state.OutputValues(outputs));
  state.finished = true;
  return state.Write(name, output_values);
}

Status Recorder::State::CheckBindings() const {
  const TensorTable& tensors = writer.tensors();
  for (uint32_t value = 0; value < tensors.size(); ++value) {
    const KnownTensor& known = tensors.at(value);
    if (known.origin == Origin::kForeign && known.binding == Binding::kNone) {
      return Error(Code::kUnsupported, DescribeForeign(known) + ", is not bound");
    }
    if (known.held.defined() && known.held.requires_grad() != known.requires_grad)
      return Error(Code::kUnsupported, "metadata-change: whether a tensor from outside requires a gradient changed");
  }
  return {};
}

Result<std::vector<uint32_t>> Recorder::State::OutputValues(const std::vector<at::Tensor>& outputs) const {
  const TensorTable& tensors = writer.tensors();
  std::vector<uint32_t> values;
  for (const at::Tensor& output : outputs) {
    const std::string which = "output " + std::to_string(values.size());
    const auto value = tensors.Find(output);
    if (!value) return Error(Code::kUnsupported, which + " was not made by a recorded operator");
    if (const char* what = tensors.Changed(output, *value)) {
      return Error(Code::kUnsupported, "metadata-change: the " + std::string(what) + " of " + which + " changed");
    }
    values.push_back(*value);
  }
  return values;
}

Buffer Recorder::State::Write(const std::string& name, const std::vector<uint32_t>& outputs) {
  const TensorTable& tensors = writer.tensors();
  auto& builder = writer.builder();
  std::vector<flatbuffers::Offset<proto::TensorMeta>> metas;
  for (uint32_t value = 0; value < tensors.size(); ++value) {
    const KnownTensor& known = tensors.at(value);
    const auto sizes = builder.CreateVector(known.sizes.data(), known.sizes.size());
    const auto strides = builder.CreateVector(known.strides.data(), known.strides.size());
    metas.push_back(proto::CreateTensorMeta(builder, known.dtype, sizes, strides, known.offset, known.storage));
  }
  std::vector<flatbuffers::Offset<proto::Source>> sources;
  const auto add = [&](uint32_t value, proto::SourceKind kind, const std::string& label) {
    const auto text = builder.CreateString(label);
    flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data;
    if (kind == proto::SourceKind::Constant) data = builder.CreateVector(*tensors.at(value).elements);
    sources.push_back(proto::CreateSource(builder, value, kind, text, data));
  };
  for (const auto& [value, label] : inputs) add(value, proto::SourceKind::Input, label);
  for (const uint32_t value : weights) add(value, proto::SourceKind::Weight, tensors.at(value).name);
  for (uint32_t value = 0; value < tensors.size(); ++value) {
    const KnownTensor& known = tensors.at(value);
    if (known.origin == Origin::kFresh || known.binding == Binding::kConstant) {
      add(value, proto::SourceKind::Constant, "constant_" + std::to_string(value));
    }
  }
  const auto name_offset = builder.CreateString(name);
  const auto meta_offsets = builder.CreateVector(metas);
  const auto source_offsets = builder.CreateVector(sources);
  const auto step_offsets = builder.CreateVector(writer.steps());
  const auto output_offsets = builder.CreateVector(outputs);
  flatbuffers::Offset<flatbuffers::Vector<const proto::SizeExpr*>> exprs;
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<proto::SizeGuard>>> guards;
  flatbuffers::Offset<flatbuffers::Vector<const proto::SizedInt*>> ints;
  if (sizes) {
    exprs = builder.CreateVectorOfStructs(sizes->exprs);
    std::vector<flatbuffers::Offset<proto::SizeGuard>> offsets;
    for (const SizeNotes::Guard& guard : sizes->guards) {
      offsets.push_back(proto::CreateSizeGuard(builder, guard.relation, guard.left, guard.right,
                                               builder.CreateSharedString(guard.where)));
    }
    guards = builder.CreateVector(offsets);
    ints = builder.CreateVectorOfStructs(sizes->ints);
  }
  proto::FinishRecordingBuffer(
      builder, proto::CreateRecording(builder, name_offset, meta_offsets, source_offsets, step_offsets, output_offsets,
                                      eager_ns, sizes.has_value(), exprs, guards, ints));
  return Buffer(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

}  // namespace ingot::client
