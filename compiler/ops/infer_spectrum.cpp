// SPDX-License-Identifier: Apache-2.0
// Inference of Fourier transforms.
#include <algorithm>
#include <string_view>

#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

std::optional<DType> ComplexOf(DType dtype) {
  if (IsComplex(dtype)) return dtype;
  if (dtype == DType::kF32) return DType::kC64;
  return dtype == DType::kF64 ? std::optional(DType::kC128) : std::nullopt;
}

/// Positive frequencies of a real signal.
std::optional<Dim> Half(const Dim& size) {
  const auto half = FloorQuotient(size, 2);
  return half ? std::optional(*half + Dim(1)) : std::nullopt;
}

/// fft_fft, fft_ifftn, fft_rfft2 and so on: lengths, dims and what becomes real or complex are said by name.
bool Transformed(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  if (!type || type->sizes.empty()) return false;
  std::string_view name = call.node().op;
  name.remove_prefix(std::string_view("aten.fft_").size());
  const bool many = name.ends_with("2") || name.ends_with("n");
  const bool from_real = name.starts_with("rfft"), to_real = name.starts_with("irfft");
  if (from_real && !IsFloat(type->dtype)) return false;
  const auto complex = ComplexOf(type->dtype);
  if (!complex) return false;
  std::vector<size_t> dims;
  const auto listed = call.IntsAt(2);
  if (!listed && !call.IsNone(2)) return false;
  const auto lengths = call.IsNone(1) ? std::optional(Dims{}) : call.DimsAt(1);
  if (!lengths) return false;
  if (listed) {
    for (const int64_t dim : *listed) {
      const auto at = WrapDim(dim, type->rank());
      if (!at) return false;
      dims.push_back(*at);
    }
  } else {
    // All dims, the last two, or the last; of as many lengths as are given the last ones.
    const size_t all = !many ? 1 : name.ends_with("2") ? 2 : lengths->empty() ? type->rank() : lengths->size();
    if (all > type->rank()) return false;
    for (size_t i = type->rank() - all; i < type->rank(); ++i) dims.push_back(i);
  }
  if (dims.empty() || (!lengths->empty() && lengths->size() != dims.size())) return false;
  Dims sizes = type->sizes;
  for (size_t i = 0; i < lengths->size(); ++i) {
    if ((*lengths)[i] != Dim(-1)) sizes[dims[i]] = (*lengths)[i];
  }
  Dim& last = sizes[dims.back()];
  if (from_real) {
    const auto half = Half(last);
    if (!half) return false;
    last = *half;
  } else if (to_real && (lengths->empty() || lengths->back() == Dim(-1))) {
    last = Dim(2) * (last - Dim(1));
  }
  const DType real = *complex == DType::kC128 ? DType::kF64 : DType::kF32;
  results.push_back({to_real ? real : *complex, std::move(sizes)});
  return true;
}

}  // namespace

bool InferFft(const Call& call, Results& results) { return Transformed(call, results); }

bool InferStft(const Call& call, Results& results) {
  const Type *type = call.TypeAt(0), *window = call.TypeAt(4);
  const auto length = call.IntAt(1);
  if (!type || !length || *length < 1 || type->sizes.empty() || type->rank() > 2) return false;
  const auto hop = call.IsNone(2) ? std::optional(*length / 4) : call.IntAt(2);
  const auto complex = ComplexOf(type->dtype);
  // What the plain overload has of the arguments: normalized, onesided, return_complex, align_to_window.
  const bool is_real = IsFloat(type->dtype) && (window == nullptr || IsFloat(window->dtype));
  if (!complex || !hop || *hop < 1 || !call.BoolAt(7).value_or(false) || call.BoolAt(8).value_or(false)) return false;
  const bool is_half = call.BoolAt(6).value_or(is_real);
  const auto steps = FloorQuotient(type->sizes.back() - Dim(*length), Dim(*hop));
  if (!steps) return false;
  Dims sizes(type->sizes.begin(), type->sizes.end() - 1);
  sizes.insert(sizes.end(), {Dim(is_half ? *length / 2 + 1 : *length), *steps + Dim(1)});
  results.push_back({*complex, std::move(sizes)});
  return true;
}

bool InferIstft(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  const auto length = call.IntAt(1);
  if (!type || !length || *length < 1 || !IsComplex(type->dtype) || type->rank() < 2 || type->rank() > 3) return false;
  const auto hop = call.IsNone(2) ? std::optional(*length / 4) : call.IntAt(2);
  const bool is_half = call.BoolAt(7).value_or(type->sizes[type->rank() - 2] != Dim(*length));
  const bool is_cut = call.BoolAt(5).value_or(true);
  if (!hop || *hop < 1 || call.BoolAt(9).value_or(false)) return false;
  if (!SameSize(type->sizes[type->rank() - 2], Dim(is_half ? *length / 2 + 1 : *length))) return false;
  const Dim whole = Dim(*length) + Dim(*hop) * (type->sizes.back() - Dim(1));
  const auto asked = call.IsNone(8) ? std::optional(is_cut ? whole - Dim(*length / 2 * 2) : whole) : call.DimAt(8);
  if (!asked) return false;
  Dims sizes(type->sizes.begin(), type->sizes.end() - 2);
  sizes.push_back(*asked);
  results.push_back({type->dtype == DType::kC128 ? DType::kF64 : DType::kF32, std::move(sizes)});
  return true;
}

}  // namespace ingot::compiler
