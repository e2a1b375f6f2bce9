// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/operator_sizes.h"

#include <algorithm>
#include <string_view>

#include "base/floored.h"
#include "compiler/ops/call.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

using Rule = bool (*)(const Call& call, Sizes& sizes);

bool IsConst(const Dims& dims) {
  return std::ranges::all_of(dims, [](const Dim& dim) { return dim.is_const(); });
}

/// `small` broadcasts to `large` without making it larger.
bool Fits(const Dims& small, const Dims& large) {
  if (small.size() > large.size()) return false;
  const size_t offset = large.size() - small.size();
  for (size_t i = 0; i < small.size(); ++i) {
    if (!small[i].is_one() && !SameSize(small[i], large[offset + i])) return false;
  }
  return true;
}

bool SameFrom(const Dims& a, size_t at, const Dims& b) {
  if (at + b.size() != a.size()) return false;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!SameSize(a[at + i], b[i])) return false;
  }
  return true;
}

/// Argument `at` is absent or a vector of `size` elements.
bool IsVector(const Call& call, size_t at, const Dim& size) {
  const Type* type = call.TypeAt(at);
  return type == nullptr ? call.IsNone(at) : type->rank() == 1 && SameSize(type->sizes[0], size);
}

bool Nothing(const Call&, Sizes&) { return true; }

bool Copy(const Call& call, Sizes&) {
  const Type *to = call.TypeAt(0), *from = call.TypeAt(1);
  return to && from && Fits(from->sizes, to->sizes);
}

bool Normalized(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  const auto shape = call.DimsAt(1);
  if (!type || !shape || shape->size() > type->rank()) return false;
  if (!SameFrom(type->sizes, type->rank() - shape->size(), *shape)) return false;
  for (const size_t at : {2, 3}) {
    const Type* weight = call.TypeAt(at);
    if (weight && !SameFrom(weight->sizes, 0, *shape)) return false;
  }
  return true;
}

/// Channels, which are dim 1, are as many as the vectors at `from` up to `to` are long.
bool Channels(const Call& call, size_t from, size_t to) {
  const Type* type = call.TypeAt(0);
  if (!type || type->rank() < 2) return false;
  bool known = type->sizes[1].is_const();
  for (size_t at = from; at < to; ++at) {
    if (!IsVector(call, at, type->sizes[1])) return false;
    known |= call.TypeAt(at) != nullptr;
  }
  return known;
}

bool GroupNorm(const Call& call, Sizes&) { return call.IntAt(1) && Channels(call, 2, 4); }
bool BatchNorm(const Call& call, Sizes&) { return Channels(call, 1, 5); }

bool TopK(const Call& call, Sizes& sizes) {
  const Type* type = call.TypeAt(0);
  const auto k = call.DimAt(1);
  const auto at = type ? WrapDim(call.IntAt(2).value_or(-1), type->rank()) : std::nullopt;
  return k && at && *at < type->rank() && sizes.AtLeastZero(type->sizes[*at] - *k);
}

/// Their number of dims is the operator's; nothing to look at without elements.
bool Upsample(const Call& call, Sizes& sizes) {
  const Type* type = call.TypeAt(0);
  const auto to = Infer(call.graph(), call.node());
  const auto is_some = [&](const Dim& size) { return sizes.AtLeastZero(size - Dim(1)); };
  return to && std::all_of(type->sizes.begin() + 1, type->sizes.end(), is_some) &&
         std::all_of(to->front().sizes.begin() + 2, to->front().sizes.end(), is_some);
}

bool Gather(const Call& call, Sizes&) {
  const Type *type = call.TypeAt(0), *index = call.TypeAt(2);
  const auto dim = type ? call.IntAt(1) : std::nullopt;
  const auto at = dim ? WrapDim(*dim, type->rank()) : std::nullopt;
  if (!at || !index || index->rank() != type->rank()) return false;
  for (size_t i = 0; i < type->rank(); ++i) {
    if (i != *at && !SameSize(type->sizes[i], index->sizes[i])) return false;
  }
  return true;
}

bool IndexCopy(const Call& call, Sizes&) {
  const Type *type = call.TypeAt(0), *index = call.TypeAt(2), *source = call.TypeAt(3);
  const auto dim = type ? call.IntAt(1) : std::nullopt;
  const auto at = dim ? WrapDim(*dim, type->rank()) : std::nullopt;
  if (!at || !index || !source || source->rank() != type->rank()) return false;
  for (size_t i = 0; i < type->rank(); ++i) {
    if (!SameSize(source->sizes[i], i == *at ? index->Elements() : type->sizes[i])) return false;
  }
  return true;
}

bool IndexPut(const Call& call, Sizes&) {
  const Type* values = call.TypeAt(2);
  if (!values) return false;
  Node index{"aten.index.Tensor", {call.node().args[0], call.node().args[1]}};
  const auto picked = Infer(call.graph(), index);
  return picked && Fits(values->sizes, picked->front().sizes);
}

/// What lies in another order keeps it, unless a dim is turned by a multiple of its size: eager joins two parts, and
/// the order is lost where one of them is empty.
bool Roll(const Call& call, Sizes& sizes) {
  const Type* type = call.TypeAt(0);
  const auto shifts = call.DimsAt(1);
  const auto dims = call.IntsAt(2);
  if (!type || !shifts || !dims) return false;
  if (type->IsContiguous()) return true;
  for (size_t i = 0; i < dims->size() && i < shifts->size(); ++i) {
    const auto at = WrapDim((*dims)[i], type->rank());
    if (!at || *at >= type->rank()) return false;
    const Dim &size = type->sizes[*at], &shift = (*shifts)[i];
    const int64_t seen = sizes.Seen(size);
    if (seen == 0) continue;
    const int64_t turned = sizes.Seen(shift);
    if (FloorMod(turned, seen) != 0) {
      const int64_t times = FloorDiv(turned, seen);
      sizes.AtLeastZero(shift - size * Dim(times) - Dim(1));
      sizes.AtLeastZero(size * Dim(times + 1) - shift - Dim(1));
    } else if (!shift.is_zero()) {
      for (const Dim& dim : {size, shift}) sizes.Fix(dim, "it is turned by a multiple of its size");
    }
  }
  return true;
}

/// What is scattered is as large as the window of operand 0 that `view` takes by the same arguments.
bool Scattered(const Call& call, const char* view) {
  const Type* source = call.TypeAt(1);
  Node window{view, call.node().args};
  window.args.erase(window.args.begin() + 1);
  const auto taken = InferWithin(call.graph(), window);
  return source && taken && SameFrom(taken->front().sizes, 0, source->sizes);
}
bool SelectScatter(const Call& call, Sizes&) { return Scattered(call, "aten.select.int"); }
bool SliceScatter(const Call& call, Sizes&) { return Scattered(call, "aten.slice.Tensor"); }

bool Pad(const Call& call, Sizes& sizes) {
  const Type* type = call.TypeAt(0);
  const auto pad = call.DimsAt(1);
  if (!type || !pad || pad->size() % 2 != 0 || pad->size() / 2 > type->rank()) return false;
  const bool is_constant =
      call.node().op == "aten.constant_pad_nd" || call.NameAt(2).value_or("constant") == "constant";
  for (size_t i = 0; i < pad->size(); ++i) {
    const Dim& amount = (*pad)[i];
    // What lies plainly is copied where nothing is added, as it is where something is.
    if (is_constant && type->IsContiguous() && sizes.IsNeverNegative(amount)) continue;
    // What is added is added everywhere, and what is cut is cut and there: each is a way of its own.
    if (sizes.Seen(amount) == 0) {
      SameSize(amount, Dim(0));
    } else if (sizes.Seen(amount) > 0) {
      sizes.AtLeastZero(amount - Dim(1));
    } else if (!sizes.AtLeastZero(Dim(-1) - amount) ||
               !sizes.AtLeastZero(type->sizes[type->rank() - 1 - i / 2] + amount)) {
      return false;
    }
    // Others take what they pad with from within.
    if (!is_constant && !sizes.AtLeastZero(type->sizes[type->rank() - 1 - i / 2] - amount - Dim(1))) return false;
  }
  return true;
}

/// The index places elements of the source within the dims of operand 0, except for the one that it is about.
bool Scatter(const Call& call, Sizes& sizes) {
  const Type *type = call.TypeAt(0), *index = call.TypeAt(2), *source = call.TypeAt(3);
  const auto dim = type ? call.IntAt(1) : std::nullopt;
  const auto at = dim ? WrapDim(*dim, type->rank()) : std::nullopt;
  if (!at || type->sizes.empty() || !index || index->rank() != type->rank()) return false;
  if (source && source->rank() != type->rank()) return false;
  for (size_t i = 0; i < type->rank(); ++i) {
    if (i != *at && !sizes.AtLeastZero(type->sizes[i] - index->sizes[i])) return false;
    if (source && !sizes.AtLeastZero(source->sizes[i] - index->sizes[i])) return false;
  }
  return true;
}

/// Operators that take dims of 1 in ways of their own.
bool AllLarge(const Call& call, Sizes& sizes) {
  bool are = true;
  ForEachOperand(call.node(), [&](ValueId id) {
    for (const Dim& size : call.graph().type(id).sizes) are &= size.is_const() || sizes.AtLeastZero(size - Dim(2));
  });
  return are;
}

bool AffineGrid(const Call& call, Sizes&) {
  const Type* theta = call.TypeAt(0);
  const auto output = call.DimsAt(1);
  if (!theta || theta->rank() != 3 || !output) return false;
  const Dim spatial(std::ssize(*output) - 2);
  return SameSize(theta->sizes[1], spatial) && SameSize(theta->sizes[2], spatial + Dim(1));
}

/// A window of samples is a number of them.
bool Stft(const Call& call, Sizes&) {
  const Type* window = call.TypeAt(4);
  return window == nullptr ? call.IsNone(4) : IsConst(window->sizes);
}

/// Weights are numbers, and nothing is masked.
bool EncoderLayer(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  const auto width = call.DimAt(1);
  if (!type || type->rank() != 3 || !width || !SameSize(type->sizes[2], *width) || !call.IsNone(18)) return false;
  for (size_t at = 3; at < 18; ++at) {
    if (const Type* weight = call.TypeAt(at); weight && !IsConst(weight->sizes)) return false;
  }
  return true;
}

bool SelfAttention(const Call& call, Sizes&) {
  const Type *query = call.TypeAt(0), *key = call.TypeAt(1), *value = call.TypeAt(2);
  const auto width = call.DimAt(3);
  if (!query || !key || !value || query->rank() != 3 || !width || !SameSize(query->sizes[2], *width)) return false;
  if (!SameFrom(key->sizes, 0, query->sizes) || !SameFrom(value->sizes, 0, query->sizes)) return false;
  for (size_t at = 5; at < 9; ++at) {
    if (const Type* weight = call.TypeAt(at); weight && !IsConst(weight->sizes)) return false;
  }
  return call.IsNone(9);
}

bool InstanceNorm(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  if (!type || type->rank() < 2) return false;
  for (size_t at = 1; at < 5; ++at) {
    if (!IsVector(call, at, type->sizes[1])) return false;
  }
  return true;
}

bool Linear(const Call& call, Sizes&) {
  const Type* weight = call.TypeAt(1);
  return weight && !weight->sizes.empty() && (call.IsNone(2) || IsVector(call, 2, weight->sizes[0]));
}

bool Addmm(const Call& call, Sizes&) {
  const Type* bias = call.TypeAt(0);
  const auto product = Infer(call.graph(), call.node());
  return bias && product && Fits(bias->sizes, product->front().sizes);
}

bool Conv(const Call& call, Sizes&) {
  const Type *input = call.TypeAt(0), *weight = call.TypeAt(1);
  if (!input || !weight || weight->rank() < 3 || input->rank() + 1 < weight->rank()) return false;
  const Dim& channels = input->sizes[input->rank() - weight->rank() + 1];
  const auto groups = call.IsNone(6) ? std::optional<int64_t>(1) : call.IntAt(6);
  return groups && IsConst(weight->sizes) && SameSize(channels, weight->sizes[1] * Dim(*groups)) &&
         IsVector(call, 2, weight->sizes[0]);
}

bool ConvTranspose(const Call& call, Sizes&) {
  const Type *input = call.TypeAt(0), *weight = call.TypeAt(1);
  if (!input || !weight || weight->rank() < 3 || input->rank() + 1 < weight->rank()) return false;
  const auto groups = call.IsNone(6) ? std::optional<int64_t>(1) : call.IntAt(6);
  return groups && IsConst(weight->sizes) &&
         SameSize(input->sizes[input->rank() - weight->rank() + 1], weight->sizes[0]) &&
         IsVector(call, 2, weight->sizes[1] * Dim(*groups));
}

/// What is put before it and behind it is as large in all other dims.
bool Diff(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  const auto at = type && type->rank() > 0 ? WrapDim(call.IntAt(2).value_or(-1), type->rank()) : std::nullopt;
  if (!at) return false;
  for (const size_t more : {3, 4}) {
    const Type* put = call.TypeAt(more);
    if (!put) continue;
    if (put->rank() != type->rank()) return false;
    for (size_t i = 0; i < type->rank(); ++i) {
      if (i != *at && !SameSize(put->sizes[i], type->sizes[i])) return false;
    }
  }
  return true;
}

/// Features are the weights', the batch is that of the states.
bool Recurrent(const Call& call, Sizes&) {
  const Type* input = call.TypeAt(0);
  const Type* one = call.TypeAt(1);
  const auto states = one ? std::optional(std::vector<const Type*>{one}) : call.TypesAt(1);
  const auto weights = call.TypesAt(2);
  const auto batch_first = call.BoolAt(8);
  if (!input || input->rank() != 3 || !states || !weights || weights->empty() || !batch_first) return false;
  for (const Type* weight : *weights) {
    if (weight == nullptr || !IsConst(weight->sizes)) return false;
  }
  const auto fits = [&](const Type* state) {
    return state && state->rank() == 3 && state->sizes[0].is_const() && state->sizes[2].is_const() &&
           SameSize(state->sizes[1], input->sizes[*batch_first ? 0 : 1]);
  };
  return std::ranges::all_of(*states, fits) && SameSize(input->sizes[2], weights->front()->sizes[1]);
}

bool Attention(const Call& call, Sizes& sizes) {
  const Type *query = call.TypeAt(0), *key = call.TypeAt(1), *value = call.TypeAt(2);
  if (!query || !key || !value || query->rank() < 3 || key->rank() != query->rank() || value->rank() != query->rank())
    return false;
  const size_t rank = query->rank();
  const bool has_groups = call.BoolAt(7).value_or(false);
  for (size_t i = 0; i + 2 < rank; ++i) {
    const bool may_differ = has_groups && i + 3 == rank;
    // One key stands for those of many queries where the plain way is taken, which it is for different sizes.
    const bool is_shared = !has_groups && key->sizes[i].is_one() && value->sizes[i].is_one();
    if (is_shared && (query->sizes[i].is_const() || sizes.AtLeastZero(query->sizes[i] - Dim(2)))) continue;
    if (may_differ && query->sizes[i].is_const() && key->sizes[i].is_const() && value->sizes[i] == key->sizes[i])
      continue;
    if (!SameSize(query->sizes[i], key->sizes[i]) || !SameSize(key->sizes[i], value->sizes[i])) return false;
  }
  if (!SameSize(query->sizes[rank - 1], key->sizes[rank - 1]) ||
      !SameSize(key->sizes[rank - 2], value->sizes[rank - 2]))
    return false;
  const Type* mask = call.TypeAt(3);
  if (!mask) return call.IsNone(3);
  Dims scores(query->sizes.begin(), query->sizes.end() - 1);
  scores.push_back(key->sizes[rank - 2]);
  return Fits(mask->sizes, scores);
}

bool SplitSizes(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  const auto lengths = call.DimsAt(1);
  const auto at = type ? WrapDim(call.IntAt(2).value_or(0), type->rank()) : std::nullopt;
  if (!at || !lengths || *at >= type->rank()) return false;
  Dim sum;
  for (const Dim& length : *lengths) sum = sum + length;
  return SameSize(sum, type->sizes[*at]);
}

bool Range(const Call& call, Sizes& sizes) {
  const auto inferred = Infer(call.graph(), call.node());
  return inferred && sizes.AtLeastZero(inferred->front().sizes[0]);
}

bool IndexSelect(const Call& call, Sizes&) {
  const Type* index = call.TypeAt(2);
  return index && index->rank() <= 1;
}

struct Entry {
  std::string_view op;
  Rule rule;
};

// Operators whose inference does not say all.
constexpr Entry kEntries[] = {
    {"aten.copy", Copy},
    {"aten.layer_norm", Normalized},
    {"aten.rms_norm", Normalized},
    {"aten.group_norm", GroupNorm},
    {"aten.batch_norm", BatchNorm},
    {"aten.topk", TopK},
    {"aten.upsample_nearest1d", Upsample},
    {"aten.upsample_nearest1d.vec", Upsample},
    {"aten.upsample_nearest2d", Upsample},
    {"aten.upsample_nearest2d.vec", Upsample},
    {"aten.upsample_nearest3d", Upsample},
    {"aten.upsample_nearest3d.vec", Upsample},
    {"aten._upsample_nearest_exact1d", Upsample},
    {"aten._upsample_nearest_exact1d.vec", Upsample},
    {"aten._upsample_nearest_exact2d", Upsample},
    {"aten._upsample_nearest_exact2d.vec", Upsample},
    {"aten._upsample_nearest_exact3d", Upsample},
    {"aten._upsample_nearest_exact3d.vec", Upsample},
    {"aten.upsample_linear1d", Upsample},
    {"aten.upsample_linear1d.vec", Upsample},
    {"aten.upsample_bilinear2d", Upsample},
    {"aten.upsample_bilinear2d.vec", Upsample},
    {"aten.upsample_bicubic2d", Upsample},
    {"aten.upsample_bicubic2d.vec", Upsample},
    {"aten.upsample_trilinear3d", Upsample},
    {"aten.upsample_trilinear3d.vec", Upsample},
    {"aten._upsample_bilinear2d_aa", Upsample},
    {"aten._upsample_bilinear2d_aa.vec", Upsample},
    {"aten._upsample_bicubic2d_aa", Upsample},
    {"aten._upsample_bicubic2d_aa.vec", Upsample},
    {"aten.empty.memory_format", Nothing},
    {"aten.embedding", Nothing},
    {"aten.index.Tensor", Nothing},
    {"aten.index_select", IndexSelect},
    {"aten.gather", Gather},
    {"aten.index_copy", IndexCopy},
    {"aten.index_add", IndexCopy},
    {"aten.index_put", IndexPut},
    {"aten.cat", Nothing},
    {"aten.concat", Nothing},
    {"aten.concatenate", Nothing},
    {"aten.stack", Nothing},
    {"aten.repeat", Nothing},
    {"aten.repeat_interleave.self_int", Nothing},
    {"aten.flip", Nothing},
    {"aten.roll", Roll},
    {"aten.tril", Nothing},
    {"aten.triu", Nothing},
    {"aten.slice_scatter", SliceScatter},
    {"aten.select_scatter", SelectScatter},
    {"aten.pad", Pad},
    {"aten.constant_pad_nd", Pad},
    {"aten.linear", Linear},
    {"aten.mm", Nothing},
    {"aten.bmm", Nothing},
    {"aten.mv", Nothing},
    {"aten.dot", Nothing},
    {"aten.matmul", Nothing},
    {"aten.outer", Nothing},
    {"aten.addmm", Addmm},
    {"aten.baddbmm", Addmm},
    {"aten.conv1d", Conv},
    {"aten.conv2d", Conv},
    {"aten.conv3d", Conv},
    {"aten.conv1d.padding", Conv},
    {"aten.conv2d.padding", Conv},
    {"aten.conv3d.padding", Conv},
    {"aten.lstm.input", Recurrent},
    {"aten.gru.input", Recurrent},
    {"aten.rnn_tanh.input", Recurrent},
    {"aten.rnn_relu.input", Recurrent},
    {"aten.conv_transpose1d", ConvTranspose},
    {"aten.conv_transpose2d.input", ConvTranspose},
    {"aten.conv_transpose3d.input", ConvTranspose},
    {"aten.scaled_dot_product_attention", Attention},
    {"aten.split.sizes", SplitSizes},
    {"aten.split", SplitSizes},
    {"aten.split_with_sizes", SplitSizes},
    {"aten.broadcast_tensors", Nothing},
    {"aten.meshgrid", Nothing},
    {"aten.meshgrid.indexing", Nothing},
    {"aten.tensor_split.indices", Nothing},
    {"aten.scatter.src", Scatter},
    {"aten.scatter.value", Scatter},
    {"aten.scatter_add", Scatter},
    {"aten.scatter_reduce.two", Scatter},
    {"aten.scatter.reduce", Scatter},
    {"aten.scatter.value_reduce", Scatter},
    {"aten.inner", Nothing},
    {"aten.kron", Nothing},
    {"aten.cdist", Nothing},
    {"aten.take_along_dim", Nothing},
    {"aten.hstack", Nothing},
    {"aten.vstack", Nothing},
    {"aten.column_stack", Nothing},
    {"aten.fliplr", Nothing},
    {"aten.flipud", Nothing},
    {"aten.rand", Nothing},
    {"aten.randn", Nothing},
    {"aten.randint", Nothing},
    {"aten.randint.low", Nothing},
    {"aten.randperm", Nothing},
    {"aten.rand_like", Nothing},
    {"aten.randn_like", Nothing},
    {"aten.multinomial", Nothing},
    {"aten.exponential", Nothing},
    {"aten.bernoulli", Nothing},
    {"aten.bernoulli.p", Nothing},
    {"aten.index_fill.int_Scalar", Nothing},
    {"aten.addmv", Addmm},
    {"aten.kthvalue", TopK},
    {"aten.tile", Nothing},
    {"aten.pad_sequence", Nothing},
    {"aten.one_hot", Nothing},
    {"aten.diff", Diff},
    {"aten.pixel_shuffle", Nothing},
    {"aten.pixel_unshuffle", Nothing},
    {"aten.affine_grid_generator", AffineGrid},
    {"aten.einsum", AllLarge},
    {"aten.instance_norm", InstanceNorm},
    {"aten.stft", Stft},
    {"aten.istft", Stft},
    {"aten._transformer_encoder_layer_fwd", EncoderLayer},
    {"aten._native_multi_head_attention", SelfAttention},
    {"aten.fft_fft", AllLarge},
    {"aten.fft_fft2", AllLarge},
    {"aten.fft_fftn", AllLarge},
    {"aten.fft_ifft", AllLarge},
    {"aten.fft_ifft2", AllLarge},
    {"aten.fft_ifftn", AllLarge},
    {"aten.fft_rfft", AllLarge},
    {"aten.fft_rfft2", AllLarge},
    {"aten.fft_rfftn", AllLarge},
    {"aten.fft_irfft", AllLarge},
    {"aten.fft_irfft2", AllLarge},
    {"aten.fft_irfftn", AllLarge},
    {"aten.fft_fftshift", Nothing},
    {"aten.fft_ifftshift", Nothing},
    {"aten.arange", Range},
    {"aten.arange.start", Range},
    {"aten.arange.start_step", Range},
};

/// Least and greatest of an integer type that has less than 64 bits.
std::optional<std::pair<int64_t, int64_t>> LimitsOf(DType dtype) {
  switch (dtype) {
    case DType::kU8: return {{0, UINT8_MAX}};
    case DType::kI8: return {{INT8_MIN, INT8_MAX}};
    case DType::kI16: return {{INT16_MIN, INT16_MAX}};
    case DType::kI32: return {{INT32_MIN, INT32_MAX}};
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<std::vector<Inferred>> InferWithin(const Graph& graph, const Node& node) {
  if (node.op != "aten.slice.Tensor") return Infer(graph, node);
  const Call call(graph, node);
  const Type* operand = call.TypeAt(0);
  const auto dim = call.IsNone(1) ? std::optional<int64_t>(0) : call.IntAt(1);
  const auto step = call.IsNone(4) ? std::optional<int64_t>(1) : call.IntAt(4);
  const auto start = call.DimAt(2), end = call.DimAt(3);
  if (!operand || !dim || !step || !start || !end) return Infer(graph, node);
  const auto at = WrapDim(*dim, operand->rank());
  const auto length = FloorQuotient(*end - *start + Dim(*step - 1), Dim(*step));
  if (!length || !at || *at >= operand->rank()) return std::nullopt;
  Type type = *operand;
  type.sizes[*at] = *length;
  type.strides[*at] = type.strides[*at] * Dim(*step);
  return std::vector<Inferred>{{type.dtype, type.sizes, type.strides}};
}

namespace {

/// Numbers that are arguments of their own, unlike those in the place of a tensor, must fit the type that they are
/// converted to: eager refuses others.
void NoteNumbersFit(const Graph& graph, const Node& node, Sizes& sizes) {
  const auto limits = LimitsOf(graph.type(node.results[0]).dtype);
  if (!limits) return;
  for (const Arg& arg : node.args) {
    const Dim* number = std::get_if<Dim>(&arg);
    if (number == nullptr || number->is_const()) continue;
    const int64_t seen = sizes.Seen(*number);
    if (seen < limits->first || seen > limits->second) continue;
    sizes.AtLeastZero(*number - Dim(limits->first));
    sizes.AtLeastZero(Dim(limits->second) - *number);
  }
}

}  // namespace

bool NoteOperator(const Graph& graph, const Node& node, Sizes& sizes) {
  const OpInfo* op = FindOp(node.op);
  if (op == nullptr || op->infer == nullptr) return false;
  const auto entry = std::ranges::find(kEntries, node.op, &Entry::op);
  const Call call(graph, node);
  if (op->op_class == OpClass::kPointwise || op->op_class == OpClass::kCreation) NoteNumbersFit(graph, node, sizes);
  if (entry != std::end(kEntries)) return entry->rule(call, sizes) && !call.misread();
  switch (op->op_class) {
    case OpClass::kPointwise:
    case OpClass::kView:
    case OpClass::kReduction:
    case OpClass::kCreation: return true;
    default: return false;
  }
}

}  // namespace ingot::compiler
