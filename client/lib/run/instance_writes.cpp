// SPDX-License-Identifier: Apache-2.0
// Steps that write their arguments by operators that are not PyTorch's.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <exception>

#include "client/lib/run/checked_division.h"
#include "client/lib/run/instance.h"
#include "client/lib/run/tensor_memory.h"

namespace ingot::client {

/// An operator that writes its arguments. What it throws is the call's exception, since it must not run again: what
/// eager had written until then is brought to where a caller finds it.
Instance::Done Instance::RunInPlace(uint32_t at, Call& call, RunFailure& failure) {
  const proto::PlanStep& step = call.aten->step();
  Done done = Done::kRaised;
  try {
    call.aten->Invoke(stack_);
    done = Done::kYes;
  } catch (const WouldTrap&) {
    throw;
  } catch (const std::exception& e) {
    failure = {e.what(), std::current_exception()};
  }
  if (!LieAsPlanned(step)) {
    failure.why = fmt::format("{} changed the size of an argument, or where it lies", step.op()->string_view());
    return Done::kNo;
  }
  for (uint32_t i = 0; done == Done::kRaised && i < step.memories()->size(); ++i) {
    const uint32_t from = step.memories()->Get(i), to = step.targets()->Get(i);
    if (from == to) continue;
    wrote_ = true;
    at::Tensor target = TensorOf(to);
    target.copy_(TensorOf(from));
  }
  if (done == Done::kYes) done = TakeResults(at, call, failure.why);
  stack_.clear();
  return done;
}

bool Instance::LieAsPlanned(const proto::PlanStep& step) const {
  const auto lies = [this](uint32_t value) {
    const at::Tensor& tensor = tensors_[value];
    const Shape& shape = shapes_[value];
    return !tensor.defined() ||
           (tensor.sizes() == at::IntArrayRef(shape.sizes) && FitsStrides(value, tensor) &&
            (shape.elements == 0 ||
             AddressOf(tensor) == bases_[shape.storage] + shape.offset * static_cast<int64_t>(tensor.itemsize())));
  };
  for (const proto::PlanArg* arg : *step.args()) {
    if (arg->kind() != proto::ArgKind::Value && arg->kind() != proto::ArgKind::ValueList) continue;
    for (uint32_t i = 0; arg->ints() != nullptr && i < arg->ints()->size(); ++i) {
      if (arg->ints()->Get(i) >= 0 && !lies(static_cast<uint32_t>(arg->ints()->Get(i)))) return false;
    }
  }
  return true;
}

}  // namespace ingot::client
