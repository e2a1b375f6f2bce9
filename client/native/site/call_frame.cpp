// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/call_frame.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "client/native/cpython/without_gil.h"
#include "client/native/site/bindings.h"
#include "client/native/site/call_counters.h"

namespace ingot::client {
namespace {

constexpr size_t kSymbolsMax = 64;

/// Whether a run lasts long enough that giving up the GIL pays: operators of ATen may do anything, products read
/// weights of any size, loops as many elements as they are given (these take several microseconds).
bool IsLong(const BoundVariant& variant, const at::Tensor* const* inputs, size_t count) {
  constexpr int64_t kElementsMin = 1 << 14;
  const auto is_large = [](const at::Tensor* input) { return input->numel() >= kElementsMin; };
  return variant.heavy() || std::any_of(inputs, inputs + count, is_large);
}

/// The mode of autograd that a variant has of its own, while it runs and its outputs are put together.
class RecordedMode {
 public:
  explicit RecordedMode(const BoundVariant& variant) {
    if (variant.mode().empty()) [[likely]]
      return;
    if (variant.mode() == "inference") {
      in_inference_.emplace();
    } else {
      gradients_.emplace(variant.mode() == "grad");
    }
  }

 private:
  std::optional<at::AutoGradMode> gradients_;
  std::optional<c10::InferenceMode> in_inference_;
};

inline void CountServed(BoundVariant& variant, bool asks) {
  Counters().native_calls.fetch_add(1, std::memory_order_relaxed);
  if (asks) {
    variant.policy().Passed();
  } else {
    Counters().skipped_watches.fetch_add(1, std::memory_order_relaxed);
  }
}

/// Sets what an operator has thrown as the Python exception that eager would raise.
void SetRaised(const std::exception_ptr& raised) {
  const auto set = [&raised]() -> PyObject* {
    HANDLE_TH_ERRORS
    std::rethrow_exception(raised);
    END_HANDLE_TH_ERRORS
  };
  set();
}

}  // namespace

RunOutcome CallFrame::Run(BoundVariant& variant, bool check_values, RankVote* vote) {
  const at::Tensor* const* inputs = inputs_.tensors.data();
  const size_t count = inputs_.tensors.size();
  std::function<bool()> consent;
  if (vote != nullptr) consent = [&] { return vote->Cast(variant.number()); };
  if (vote == nullptr && !IsLong(variant, inputs, count)) {
    return variant.program().Run(inputs, count, outputs_, failure_, check_values);
  }
  // Another thread may take a tensor out of an argument's container meanwhile.
  held_.assign(count, at::Tensor());
  for (size_t i = 0; i < count; ++i) {
    held_[i] = *inputs[i];
    inputs_.tensors[i] = &held_[i];
  }
  const WithoutGil released;
  return variant.program().Run(inputs, count, outputs_, failure_, check_values, consent);
}

/// Whether the state is the one that a variant was recorded in; its inputs are found then.
inline bool CallFrame::FindInputs(BoundVariant& variant, bool asks) {
  if (asks && !variant.StateHolds()) return false;
  inputs_.Clear();
  inputs_.tensors = arguments.tensors;
  return variant.Fetch(arguments.objects, inputs_);
}

/// Says why a run gave no answer. Whether another variant may give one.
bool CallFrame::MayGoOn(RunOutcome outcome, std::string& reason, bool& fits_sizes) {
  switch (outcome) {
    case RunOutcome::kGuardFailed: reason = "guard"; return true;
    case RunOutcome::kWeightChanged: reason = "stale"; return true;
    case RunOutcome::kValueGuardFailed:
      Counters().value_guard_failures.fetch_add(1, std::memory_order_relaxed);
      reason = "value:" + failure_.why;
      fits_sizes = true;
      return true;
    case RunOutcome::kDissent: reason = "ranks"; return false;
    case RunOutcome::kTraps: SetPythonError(Error(Code::kInvalid, failure_.why)); return false;
    case RunOutcome::kRaised: SetRaised(std::exchange(failure_.raised, nullptr)); return false;
    case RunOutcome::kFailedAfterWrite: SetPythonError(HalfDone(failure_.why)); return false;
    case RunOutcome::kFailed:
      Counters().failures.fetch_add(1, std::memory_order_relaxed);
      reason = "failed:" + failure_.why;
      return false;
    case RunOutcome::kServed: break;
  }
  return false;
}

PyObject* CallFrame::Serve(VariantTable::Variants& variants, std::string& reason, Withheld& withheld, RankVote* vote) {
  int64_t symbols[kSymbolsMax];
  // Looking everything up again helps where no variant fits this state; one that fits and lacks the
  // size wants a recording.
  // A value that was another says more than the sizes of the variants behind it.
  bool fits_state = false, fits_sizes = false;
  const auto fails_for_state = [&](const char* why) {
    if (!fits_state) reason = why;
  };
  for (size_t i = 0; i < variants.size(); ++i) {
    // A copy: another thread may change the table while the GIL is released.
    const std::shared_ptr<BoundVariant> variant = variants[i];
    Program& program = variant->program();
    if (!variant->ObjectsMatch(arguments.objects)) {
      fails_for_state("objects");
      continue;
    }
    if (variant->ChangesAny(arguments.parts)) {
      reason = "unsupported:changed-argument";
      return nullptr;
    }
    const bool asks = variant->policy().Asks();
    if (!FindInputs(*variant, asks)) {
      fails_for_state("stale");
      continue;
    }
    fits_state = true;
    if (program.symbol_count() > kSymbolsMax ||
        !program.Accepts(inputs_.tensors.data(), inputs_.tensors.size(), symbols)) {
      if (!fits_sizes) reason = "guard";
      continue;
    }
    if (!variant->IsProven(symbols, program.symbol_count())) {
      if (!fits_sizes) reason = "unproven";
      continue;
    }
    if (at::GradMode::is_enabled() && variant->AnyWeightIsTracked()) {
      reason = "unsupported:requires-grad";
      return nullptr;
    }
    const bool is_agreed = variant->LetsPass(symbols, program.symbol_count());
    if (!is_agreed && vote != nullptr) [[unlikely]] {  // Nobody else can be asked to run it once more.
      reason = "ranks";
      return nullptr;
    }
    if (!is_agreed || (withheld.is_turn && variant->verifiable())) [[unlikely]] {
      withheld.program = variant->shared_program();
      withheld.is_verified = is_agreed;
      return nullptr;
    }
    if (withheld.is_turn) Counters().verify_skipped.fetch_add(1, std::memory_order_relaxed);
    const RecordedMode mode(*variant);
    const RunOutcome outcome = Run(*variant, asks, vote);
    if (outcome == RunOutcome::kServed) {
      CountServed(*variant, asks);
      if (i > 0 && i < variants.size() && variants[i] == variant) std::swap(variants[0], variants[i]);
      return variant->outputs().Build(outputs_, inputs_.tensors);
    }
    if (!MayGoOn(outcome, reason, fits_sizes)) return nullptr;
  }
  if (reason == "guard") Counters().guard_failures.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void CallFrame::Clear() {
  outputs_.clear();
  held_.clear();
  inputs_.Clear();
}

FrameLease::FrameLease() {
  static thread_local CallFrame frame;
  if (frame.is_busy_) {
    own_ = std::make_unique<CallFrame>();
    frame_ = own_.get();
  } else {
    frame_ = &frame;
  }
  frame_->is_busy_ = true;
}

FrameLease::~FrameLease() {
  frame_->Clear();
  frame_->is_busy_ = false;
}

}  // namespace ingot::client
