// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/deferred_run.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace ingot::client {
namespace {

int64_t ElementsOf(c10::ArrayRef<c10::IValue> values) {
  int64_t elements = 0;
  for (const c10::IValue& value : values) {
    ForEachTensor(value, [&](const at::Tensor& tensor) { elements += tensor.numel(); });
  }
  return elements;
}

/// More than the values of the results depends on elements, or code that is not PyTorch's reads them.
bool DependsOnElements(const c10::OperatorHandle& op, const OperatorFacts& facts, c10::ArrayRef<c10::IValue> args) {
  if (facts.is_opaque || facts.is_dynamic_shape || facts.is_lift || UsesGenerator(facts, args)) return true;
  if (op.hasTag(at::Tag::data_dependent_output)) return true;
  return std::ranges::any_of(op.schema().returns(), [](const c10::Argument& result) {
    const c10::TypeKind kind = result.type()->kind();
    const bool is_list =
        kind == c10::TypeKind::ListType && result.type()->containedType(0)->kind() == c10::TypeKind::TensorType;
    return kind != c10::TypeKind::TensorType && !is_list;
  });
}

/// The CPU's kernels choose strides of their own, which the meta kernels do not know.
bool ChoosesStrides(std::string_view name) {
  const std::string_view base = name.substr(name.find("::") + 2);
  constexpr std::array<std::string_view, 6> kPrefixes = {
      "_scaled_dot_product", "conv", "_convolution", "lstm", "gru", "rnn_"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return base.starts_with(prefix); });
}

/// How many references a tensor's Python object has on it when nobody else holds that object; none when somebody
/// does, or when this version of PyTorch does not say.
template <typename Slot>
std::optional<size_t> ReferencesOf(Slot& object) {
  if constexpr (requires { object.has_unique_reference(); }) {
    if (object.load_pyobj() == nullptr) return 0;
    if (object.has_unique_reference()) return 1;
  }
  return std::nullopt;
}

}  // namespace

void DeferredRun::Call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack,
                       const OperatorFacts& facts) {
  const auto args = torch::jit::last(*stack, op.schema().arguments().size());
  const bool needs_pending = NeedsAny(args, false);
  // What an earlier step will read must not be written before it has run.
  const bool overtakes = !facts.writes.empty() && !steps_.empty();
  if (DependsOnElements(op, facts, args)) {
    if (needs_pending || overtakes) Complete();
    return op.redispatchBoxed(below, stack);
  }
  const bool is_cheap = ElementsOf(args) <= at_once_max_;
  if (!needs_pending && !overtakes && (is_cheap || ChoosesStrides(facts.name))) {
    return op.redispatchBoxed(below, stack);
  }
  if (ChoosesStrides(facts.name)) {
    // It reads elements that are not computed; as an index they could lead anywhere.
    if (facts.writes.empty() && !NeedsAny(args, true)) return RunAtOnce(op, below, stack);
  } else {
    const MetaResults& promised = meta_.ResultsOf(op, args);
    if (promised.kind == MetaResults::Kind::kKnown) return PutOff(op, below, stack, facts, promised);
    if (promised.kind == MetaResults::Kind::kView && facts.writes.empty()) return RunAtOnce(op, below, stack);
  }
  Complete();
  op.redispatchBoxed(below, stack);
}

bool DeferredRun::NeedsAny(c10::ArrayRef<c10::IValue> values, bool integral_only) const {
  bool found = false;
  for (const c10::IValue& value : values) {
    ForEachTensor(value, [&](const at::Tensor& tensor) {
      const bool counts = !integral_only || !tensor.is_floating_point();
      found |= counts && pending_.contains(StorageOf(tensor));
    });
  }
  return found;
}

/// For results that must come from the kernel itself. Memory of their own is as unwritten as what it was made from.
void DeferredRun::RunAtOnce(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  const auto args = torch::jit::last(*stack, op.schema().arguments().size()).vec();
  op.redispatchBoxed(below, stack);
  const auto results = torch::jit::last(*stack, op.schema().returns().size());
  std::unordered_set<const c10::StorageImpl*> given;
  for (const c10::IValue& value : args) {
    ForEachTensor(value, [&](const at::Tensor& tensor) { given.insert(StorageOf(tensor)); });
  }
  bool is_new = false;
  for (const c10::IValue& value : results) {
    ForEachTensor(value, [&](const at::Tensor& tensor) {
      if (given.contains(StorageOf(tensor))) return;
      is_new = true;
      made_.insert(StorageOf(tensor));
      pending_.insert(StorageOf(tensor));
    });
  }
  if (is_new) steps_.push_back({op, below, args, results.vec()});
}

void DeferredRun::PutOff(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack,
                         const OperatorFacts& facts, const MetaResults& promised) {
  const size_t count = op.schema().arguments().size();
  auto args = torch::jit::last(*stack, count).vec();
  bool is_new = false;
  const std::vector<c10::IValue> results = promised.Make(args, [&](const at::Tensor& made) {
    is_new = true;
    made_.insert(StorageOf(made));
    pending_.insert(StorageOf(made));
  });
  for (const uint8_t position : facts.writes) {
    ForEachTensor(args[position], [&](const at::Tensor& tensor) { pending_.insert(StorageOf(tensor)); });
  }
  torch::jit::drop(*stack, count);
  stack->insert(stack->end(), results.begin(), results.end());
  // What gave back its own argument has computed nothing.
  if (is_new || !facts.writes.empty()) steps_.push_back({op, below, std::move(args), results});
}

void DeferredRun::Complete() {
  std::vector<Step> steps = std::exchange(steps_, {});
  const auto made = std::exchange(made_, {});
  pending_.clear();
  for (Step& step : steps) {
    torch::jit::Stack stack(step.args.begin(), step.args.end());
    step.op.redispatchBoxed(step.below, &stack);
    for (size_t i = 0; i < step.results.size(); ++i) {
      std::vector<at::Tensor> computed;
      ForEachTensor(stack[i], [&](const at::Tensor& tensor) { computed.push_back(tensor); });
      size_t at = 0;
      ForEachTensor(step.results[i], [&](const at::Tensor& promised) {
        const at::Tensor& tensor = computed[at++];
        if (!promised.is_same(tensor) && made.contains(StorageOf(promised))) promised.copy_(tensor);
      });
    }
    step = Step{step.op, {}, {}, {}};  // What nobody needs any more goes at once.
  }
}

bool DeferredRun::IsKept() const {
  std::unordered_map<const at::TensorImpl*, size_t> own;  // references to a tensor that are this object's
  std::unordered_map<const c10::StorageImpl*, size_t> tensors;
  std::vector<at::Tensor> all;
  const std::function<void(const at::Tensor&)> count = [&](const at::Tensor& tensor) {
    if (!made_.contains(StorageOf(tensor)) || own[tensor.unsafeGetTensorImpl()]++ > 0) return;
    ++tensors[StorageOf(tensor)];
    all.push_back(tensor);
    if (tensor.is_view()) count(at::Tensor(tensor._base()));
  };
  for (const Step& step : steps_) {
    for (const c10::IValue& value : step.args) ForEachTensor(value, count);
    for (const c10::IValue& value : step.results) ForEachTensor(value, count);
  }
  return std::ranges::any_of(all, [&](const at::Tensor& tensor) {
    const auto references = ReferencesOf(*tensor.unsafeGetTensorImpl()->pyobj_slot());
    // `all` holds it as well.
    return !references || tensor.use_count() != own[tensor.unsafeGetTensorImpl()] + 1 + *references ||
           tensor.storage().use_count() != tensors[StorageOf(tensor)];
  });
}

}  // namespace ingot::client
