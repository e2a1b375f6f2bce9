// SPDX-License-Identifier: Apache-2.0
// Inference of matrix products, convolutions and attention.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>

#include "compiler/ops/call.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/size_ties.h"

namespace ingot::compiler {
namespace {

/// Sizes of torch.matmul over operands of any rank.
std::optional<Dims> Product(const Dims& a, const Dims& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  const Dim& inner_a = a.back();
  const Dim& inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (!SameSize(inner_a, inner_b)) return std::nullopt;
  const Dims batch_a(a.begin(), a.end() - std::min<size_t>(a.size(), 2));
  const Dims batch_b(b.begin(), b.end() - std::min<size_t>(b.size(), 2));
  std::optional<Dims> sizes = Broadcast(batch_a, batch_b);
  if (!sizes) return std::nullopt;
  if (a.size() > 1) sizes->push_back(a[a.size() - 2]);
  if (b.size() > 1) sizes->push_back(b.back());
  return sizes;
}

/// Entry `i` of an argument with one for each spatial dim, or one for all.
Dim SpatialAt(const Call& call, size_t at, size_t i, int64_t otherwise) {
  const std::optional<Dims> dims = call.DimsAt(at);
  if (!dims || dims->empty()) return Dim(otherwise);
  return dims->size() == 1 ? dims->front() : dims->at(std::min(i, dims->size() - 1));
}

}  // namespace

bool InferLinear(const Call& call, Results& results) {
  const Type* input = call.TypeAt(0);
  const Type* weight = call.TypeAt(1);
  if (!input || !weight || input->sizes.empty() || weight->sizes.empty()) return false;
  if (weight->rank() > 2 || !SameSize(input->sizes.back(), weight->sizes.back())) return false;
  Dims sizes(input->sizes.begin(), input->sizes.end() - 1);
  if (weight->rank() == 2) sizes.push_back(weight->sizes[0]);
  return Push(input->dtype, std::move(sizes), results);
}

bool InferMatmul(const Call& call, Results& results) {
  const Type* a = call.TypeAt(0);
  const Type* b = call.TypeAt(1);
  if (!a || !b) return false;
  std::optional<Dims> sizes = Product(a->sizes, b->sizes);
  return sizes && Push(call.DTypeAt(2).value_or(a->dtype), std::move(*sizes), results);
}

bool InferIntMatmul(const Call& call, Results& results) {
  const Type* a = call.TypeAt(0);
  const Type* b = call.TypeAt(1);
  if (!a || !b) return false;
  std::optional<Dims> sizes = Product(a->sizes, b->sizes);
  return sizes && Push(DType::kI32, std::move(*sizes), results);
}

bool InferAddmm(const Call& call, Results& results) {
  const Type* a = call.TypeAt(1);
  const Type* b = call.TypeAt(2);
  if (!a || !b) return false;
  std::optional<Dims> sizes = Product(a->sizes, b->sizes);
  return sizes && Push(call.DTypeAt(3).value_or(a->dtype), std::move(*sizes), results);
}

bool InferOuter(const Call& call, Results& results) {
  const Type* a = call.TypeAt(0);
  const Type* b = call.TypeAt(1);
  if (!a || !b || a->rank() != 1 || b->rank() != 1) return false;
  return Push(PromoteTypes(a->dtype, b->dtype), {a->sizes[0], b->sizes[0]}, results);
}

/// Last dims are summed.
bool InferInner(const Call& call, Results& results) {
  const Type *a = call.TypeAt(0), *b = call.TypeAt(1);
  if (!a || !b || a->rank() == 0 || b->rank() == 0 || !SameSize(a->sizes.back(), b->sizes.back())) return false;
  Dims sizes(a->sizes.begin(), a->sizes.end() - 1);
  sizes.insert(sizes.end(), b->sizes.begin(), b->sizes.end() - 1);
  return Push(a->dtype, std::move(sizes), results);
}

bool InferKron(const Call& call, Results& results) {
  const Type *a = call.TypeAt(0), *b = call.TypeAt(1);
  if (!a || !b || a->rank() != b->rank()) return false;
  Dims sizes = a->sizes;
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = sizes[i] * b->sizes[i];
  return Push(PromoteTypes(a->dtype, b->dtype), std::move(sizes), results);
}

/// Distances between all rows of two batches of matrices.
bool InferCdist(const Call& call, Results& results) {
  const Type *a = call.TypeAt(0), *b = call.TypeAt(1);
  if (!a || !b || a->rank() < 2 || a->rank() != b->rank()) return false;
  const size_t rank = a->rank();
  for (size_t i = 0; i < rank; ++i) {
    if (i != rank - 2 && !SameSize(a->sizes[i], b->sizes[i])) return false;
  }
  Dims sizes = a->sizes;
  sizes[rank - 1] = b->sizes[rank - 2];
  return Push(a->dtype, std::move(sizes), results);
}

bool InferEinsum(const Call& call, Results& results) {
  const auto equation = call.NameAt(0);
  const auto types = call.TypesAt(1);
  if (!equation || !types) return false;
  std::string text(*equation);
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string inputs = text.substr(0, arrow);
  const std::string_view kEllipsis = "...";
  std::map<char, Dim> sizes;
  std::map<char, int> uses;
  Dims batch;
  size_t at = 0, begin = 0;
  for (; begin <= inputs.size() && at < types->size(); ++at) {
    const Type& type = *(*types)[at];
    if (type.dtype != types->front()->dtype || !(IsFloat(type.dtype) || IsComplex(type.dtype))) return false;
    const size_t end = std::min(inputs.find(',', begin), inputs.size());
    const std::string_view labels = std::string_view(inputs).substr(begin, end - begin);
    begin = end + 1;
    const size_t dots = labels.find(kEllipsis);
    const size_t named = labels.size() - (dots == labels.npos ? 0 : kEllipsis.size());
    if (named > type.rank() || (dots == labels.npos && named != type.rank())) return false;
    size_t dim = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (i == dots) {
        const auto first = type.sizes.begin() + static_cast<ptrdiff_t>(dim);
        const Dims own(first, first + static_cast<ptrdiff_t>(type.rank() - named));
        const auto both = Broadcast(batch, own);
        if (!both) return false;
        batch = *both;
        dim += own.size();
        i += kEllipsis.size() - 1;
        continue;
      }
      if (!std::isalpha(static_cast<unsigned char>(labels[i]))) return false;
      const Dim& size = type.sizes[dim++];
      const auto [known, is_new] = sizes.try_emplace(labels[i], size);
      ++uses[labels[i]];
      if (is_new || size.is_one()) continue;
      if (known->second.is_one()) known->second = size;
      if (!SameSize(known->second, size)) return false;
    }
  }
  if (at != types->size() || begin <= inputs.size()) return false;
  std::string output;
  if (arrow != text.npos) {
    output = text.substr(arrow + 2);
  } else {
    if (inputs.find(kEllipsis) != inputs.npos) output = kEllipsis;
    for (const auto& [label, count] : uses) {
      if (count == 1) output += label;
    }
  }
  Dims made;
  for (size_t i = 0; i < output.size(); ++i) {
    if (output.compare(i, kEllipsis.size(), kEllipsis) == 0) {
      made.insert(made.end(), batch.begin(), batch.end());
      i += kEllipsis.size() - 1;
      continue;
    }
    const auto known = sizes.find(output[i]);
    if (known == sizes.end()) return false;
    made.push_back(known->second);
  }
  return Push(types->front()->dtype, std::move(made), results);
}

bool InferConv(const Call& call, Results& results) {
  const Type* input = call.TypeAt(0);
  const Type* weight = call.TypeAt(1);
  if (!input || !weight || weight->rank() < 3) return false;
  const size_t spatial = weight->rank() - 2;
  if (input->rank() != weight->rank() && input->rank() + 1 != weight->rank()) return false;
  // "same" pads to the size there was, whatever its stride of 1 and the kernel need.
  const auto named = call.NameAt(4);
  Dims sizes = input->sizes;
  sizes[sizes.size() - spatial - 1] = weight->sizes[0];
  if (named == "same") return Push(input->dtype, std::move(sizes), results);
  for (size_t i = 0; i < spatial; ++i) {
    Dim& size = sizes[sizes.size() - spatial + i];
    const Dim stride = SpatialAt(call, 3, i, 1);
    const Dim span =
        size + Dim(2) * SpatialAt(call, 4, i, 0) - SpatialAt(call, 5, i, 1) * (weight->sizes[2 + i] - Dim(1)) - Dim(1);
    const bool is_too_small = span.is_const() && span.const_value() < 0;
    const std::optional<Dim> steps = is_too_small ? std::nullopt : FloorQuotient(span, stride);
    if (!steps) return false;
    size = *steps + Dim(1);
  }
  return Push(input->dtype, std::move(sizes), results);
}

bool InferConvTranspose(const Call& call, Results& results) {
  const Type* input = call.TypeAt(0);
  const Type* weight = call.TypeAt(1);
  if (!input || !weight || weight->rank() < 3) return false;
  const size_t spatial = weight->rank() - 2;
  if (input->rank() != weight->rank() && input->rank() + 1 != weight->rank()) return false;
  const auto groups = call.IsNone(6) ? std::optional(Dim(1)) : call.DimAt(6);
  if (!groups) return false;
  Dims sizes = input->sizes;
  sizes[sizes.size() - spatial - 1] = weight->sizes[1] * *groups;
  for (size_t i = 0; i < spatial; ++i) {
    Dim& size = sizes[sizes.size() - spatial + i];
    size = (size - Dim(1)) * SpatialAt(call, 3, i, 1) - Dim(2) * SpatialAt(call, 4, i, 0) +
           SpatialAt(call, 7, i, 1) * (weight->sizes[2 + i] - Dim(1)) + SpatialAt(call, 5, i, 0) + Dim(1);
  }
  return Push(input->dtype, std::move(sizes), results);
}

/// LSTM, GRU and plain recurrent layers over [steps, batch, features], or [batch, steps, features] by a flag,
/// from the hidden states that they are given: what comes of each step, and the states behind the last.
bool InferRecurrent(const Call& call, Results& results) {
  const Type* input = call.TypeAt(0);
  const Type* one = call.TypeAt(1);
  const auto states = one ? std::optional(std::vector<const Type*>{one}) : call.TypesAt(1);
  const auto both_ways = call.BoolAt(7), batch_first = call.BoolAt(8);
  if (!input || input->rank() != 3 || !states || states->empty() || !both_ways || !batch_first) return false;
  for (const Type* state : *states) {
    if (state == nullptr || state->rank() != 3) return false;
  }
  Dims sizes = input->sizes;
  sizes.back() = states->front()->sizes.back() * Dim(*both_ways ? 2 : 1);
  std::optional<Dims> strides;  // Steps come out one after the other.
  if (*batch_first) strides = Dims{sizes[2], sizes[0] * sizes[2], Dim(1)};
  results.push_back({input->dtype, sizes, strides});
  for (const Type* state : *states) Push(state->dtype, state->sizes, results);
  return true;
}

/// One step of a recurrent layer gives states like those that it takes.
bool InferCell(const Call& call, Results& results) {
  const Type* one = call.TypeAt(1);
  const auto states = one ? std::optional(std::vector<const Type*>{one}) : call.TypesAt(1);
  if (!call.TypeAt(0) || !states || states->empty()) return false;
  for (const Type* state : *states) {
    if (state == nullptr) return false;
    Push(state->dtype, state->sizes, results);
  }
  return true;
}

/// A layer of a transformer gives what it takes.
bool InferEncoderLayer(const Call& call, Results& results) {
  const Type* type = call.TypeAt(0);
  return type && type->rank() == 3 && Push(type->dtype, type->sizes, results);
}

/// What it takes, and how much each position looks at each other one: of each head, or their mean.
bool InferSelfAttention(const Call& call, Results& results) {
  if (!InferEncoderLayer(call, results)) return false;
  if (!call.BoolAt(10).value_or(true)) return true;
  const Type& type = *call.TypeAt(0);
  const auto heads = call.DimAt(4);
  const bool is_mean = call.BoolAt(11).value_or(true);
  if (!is_mean && !heads) return false;
  return Push(type.dtype,
              is_mean ? Dims{type.sizes[0], type.sizes[1], type.sizes[1]}
                      : Dims{type.sizes[0], *heads, type.sizes[1], type.sizes[1]},
              results);
}

bool InferAttention(const Call& call, Results& results) {
  const Type* query = call.TypeAt(0);
  const Type* value = call.TypeAt(2);
  if (!query || !value || query->rank() < 2 || value->rank() < 2) return false;
  Dims sizes = query->sizes;
  sizes.back() = value->sizes.back();
  return Push(query->dtype, std::move(sizes), results);
}

}  // namespace ingot::compiler
