// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/call_checks.h"
#include "client/lib/run/alias_marks.h"

#include <ATen/Context.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace ingot::client {
namespace {

const void* MemoryOf(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

std::string_view BaseName(const OperatorFacts& facts) {
  const std::string_view name = facts.name;
  const std::string_view base = name.substr(name.find("::") + 2);
  return base.substr(0, base.find('.'));
}

/// An offset counts from the start of a storage, which is another in each call where the tensor was not made in the
/// run; a view of one element there would be a copy.
bool CountsFromStorage(const OperatorFacts& facts, c10::ArrayRef<c10::IValue> args, const TensorTable& tensors) {
  const std::string_view base = BaseName(facts);
  const bool is_geometry = base == "as_strided" || base == "as_strided_" || base == "as_strided_copy";
  if (!is_geometry || args.size() < 4 || tensors.IsStorageOfStep(args[0].toTensor())) return false;
  const auto sizes = args[1].toIntVector();
  return !args[3].isNone() || std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; });
}

/// Elements of a list are written one after the other; one that lies in the memory of another sees
/// what that wrote.
bool WritesMeet(const OperatorFacts& facts, c10::ArrayRef<c10::IValue> args) {
  std::unordered_map<const void*, size_t> written;
  for (const uint8_t position : facts.writes) {
    if (!args[position].isTensorList()) continue;
    const auto list = args[position].toTensorVector();
    for (size_t i = 0; i < list.size(); ++i) {
      if (!written.emplace(MemoryOf(list[i]), i).second) return true;
    }
  }
  for (size_t k = 0; !written.empty() && k < args.size(); ++k) {
    if (std::find(facts.writes.begin(), facts.writes.end(), k) != facts.writes.end()) continue;
    if (args[k].isTensor() && written.contains(MemoryOf(args[k].toTensor()))) return true;
    if (!args[k].isTensorList()) continue;
    const auto list = args[k].toTensorVector();
    for (size_t i = 0; i < list.size(); ++i) {
      const auto found = written.find(MemoryOf(list[i]));
      if (found != written.end() && found->second != i) return true;
    }
  }
  return false;
}

/// Which number an element gets depends on how the target lies in memory.
bool DrawsIntoGaps(const OperatorFacts& facts, c10::ArrayRef<c10::IValue> args) {
  if (!facts.is_random) return false;
  for (const uint8_t position : facts.writes) {
    if (args[position].isTensor() && !args[position].toTensor().is_contiguous()) return true;
  }
  return false;
}

/// `sum(x, out=y)` computes in the element type of `y`.
bool ComputesInTypeOfResult(const c10::FunctionSchema& schema, const OperatorFacts& facts,
                            c10::ArrayRef<c10::IValue> args) {
  if (facts.writes.size() != 1 || !args[facts.writes[0]].isTensor() || !args[0].isTensor()) return false;
  const auto dtype = schema.argumentIndexWithName("dtype");
  if (!schema.arguments()[facts.writes[0]].is_out() || !dtype || !args[*dtype].isNone()) return false;
  const at::ScalarType from = args[0].toTensor().scalar_type(), to = args[facts.writes[0]].toTensor().scalar_type();
  const bool is_natural = from == to || (at::isIntegralType(from, true) && to == at::kLong);
  return !is_natural;
}

/// Deterministic algorithms fill memory that nobody has written yet, without an operator that says so.
bool IsFilledUnseen(const OperatorFacts& facts) {
  const at::Context& context = at::globalContext();
  if (!context.deterministicAlgorithms() || !context.deterministicFillUninitializedMemory()) return false;
  return facts.name.starts_with("aten::empty") || facts.name.starts_with("aten::new_empty");
}

}  // namespace

// PyTorch makes a tensor from Python data by filling memory behind the dispatcher's back and shows
// only the operators around the filling, with these keys excluded. Noted as steps they would give
// uninitialised memory on replay; the lift_fresh that follows shows the finished tensor instead.
bool IsInsideTensorConstructor(const c10::impl::LocalDispatchKeySet& tls) {
  return tls.excluded_.has(c10::DispatchKey::Functionalize) && tls.excluded_.has(c10::DispatchKey::Python) &&
         tls.excluded_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

std::optional<Refusal> UnsupportedMode(const c10::impl::LocalDispatchKeySet& tls) {
  if (!tls.excluded_.has(c10::DispatchKey::AutocastCPU)) {
    return Refusal{"autocast", "autocast is enabled"};
  }
  if (tls.included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) ||
      tls.included_.has(c10::DispatchKey::Functionalize)) {
    return Refusal{"functorch", "a functorch transform is active"};
  }
  if (tls.included_.has(c10::DispatchKey::Python)) {
    return Refusal{"dispatch-mode", "a TorchDispatchMode is active"};
  }
  return std::nullopt;
}

std::optional<Refusal> UnfaithfulCall(const c10::FunctionSchema& schema, const OperatorFacts& facts,
                                      c10::ArrayRef<c10::IValue> args, const TensorTable& tensors) {
  if (CountsFromStorage(facts, args, tensors))
    return Refusal{"storage-offset", "counts from the start of memory that existed before"};
  if (IsFilledUnseen(facts))
    return Refusal{"deterministic-fill", "memory that deterministic algorithms fill where it is made"};
  // Operators that are not PyTorch's run as they are, on memory that their arguments share as they did.
  if (facts.writes.empty() || facts.is_opaque) return std::nullopt;
  if (WritesMeet(facts, args))
    return Refusal{"overlapping-writes", "writes tensors that share memory, one after the other"};
  if (DrawsIntoGaps(facts, args)) return Refusal{"random-layout", "draws numbers into a tensor that is not contiguous"};
  if (ComputesInTypeOfResult(schema, facts, args))
    return Refusal{"result-type", "computes in the element type of `out`, which is another"};
  return std::nullopt;
}

std::optional<Refusal> UnfaithfulResults(const c10::FunctionSchema& schema,
                                         c10::ArrayRef<std::pair<at::Tensor, uint32_t>> written,
                                         c10::ArrayRef<c10::IValue> results, const TensorTable& tensors) {
  const auto is_written = [written](const at::Tensor& tensor) {
    return std::ranges::any_of(written, [&tensor](const auto& one) {
      const at::Tensor& other = one.first;
      return tensor.is_same(other) ||
             (tensor.storage().is_alias_of(other.storage()) && tensor.scalar_type() == other.scalar_type() &&
              tensor.storage_offset() == other.storage_offset() && tensor.sizes() == other.sizes() &&
              tensor.strides() == other.strides());
    });
  };
  for (size_t i = 0; i < results.size(); ++i) {
    const bool gives_back = i < schema.returns().size() && IsWritten(schema.returns()[i].alias_info());
    std::vector<at::Tensor> list;
    if (results[i].isTensor())
      list.push_back(results[i].toTensor());
    else if (results[i].isTensorList())
      list = results[i].toTensorVector();
    else if (!results[i].isNone())
      return Refusal{"call", "writes an argument and gives a number back"};
    for (const at::Tensor& tensor : list) {
      if (!tensor.defined() || !tensor.has_storage()) continue;
      if (gives_back && !is_written(tensor))
        return Refusal{"schema-alias", "gives another tensor back than the one it writes, as its schema says"};
      if (!gives_back && (tensors.Find(tensor) || tensors.KnowsStorage(tensor)))
        return Refusal{"schema-alias", "gives memory back that was there before, and its schema says that it is new"};
    }
  }
  return std::nullopt;
}

}  // namespace ingot::client
