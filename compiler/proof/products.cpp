// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "compiler/ops/call.h"

namespace ingot::compiler {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// One multiplication here costs so much less than an operation that an Evaluation walks to.
constexpr uint64_t kProductsPerWork = 32;

/// An operand as numbers.
struct Numbers {
  std::vector<int64_t> sizes;
  std::vector<double> at;

  explicit Numbers(const Array& array) : sizes(array.sizes), at(static_cast<size_t>(array.elements)) {
    for (int64_t i = 0; i < array.elements; ++i) at[static_cast<size_t>(i)] = array.NumberAt(i);
  }
  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
};

class Products {
 public:
  Products(const Graph& graph, const Node& node, const OperandOf& operand, uint64_t work_max, uint64_t& work)
      : graph_(graph), node_(node), call_(graph, node), operand_(operand), work_max_(work_max), work_(work) {}

  Result<std::optional<Array>> Make() {
    if (node_.results.size() != 1 || node_.effects != kPure) return std::optional<Array>();
    const std::string_view op = node_.op;
    if (op == "aten.linear") return Linear();
    if (op == "aten.mm" || op == "aten.bmm" || op == "aten.matmul" || op == "aten._int_mm" || op == "aten.mv" ||
        op == "aten.dot") {
      return Matmul(0, 1, kNoValue, 1, 0);
    }
    if (op == "aten.addmm" || op == "aten.baddbmm") {
      const auto beta = call_.FloatAt(3), alpha = call_.FloatAt(4);
      return Matmul(1, 2, call_.ValueAt(0), alpha.value_or(1), beta.value_or(1));
    }
    if (op.starts_with("aten.conv")) return Conv(op);
    if (op == "aten.scaled_dot_product_attention") return Attention();
    return std::optional<Array>();
  }

 private:
  using Maybe = Result<std::optional<Array>>;

  bool IsAlike(size_t a, size_t b) const {
    const Type *left = call_.TypeAt(a), *right = call_.TypeAt(b);
    return left != nullptr && right != nullptr && !guards::IsComplex(left->dtype) && !guards::IsComplex(right->dtype);
  }
  const Type& result() const { return graph_.type(node_.results[0]); }
  Status Spend(int64_t products) {
    work_ += static_cast<uint64_t>(std::max<int64_t>(0, products)) / kProductsPerWork;
    return work_ > work_max_ ? Status(Error(Code::kExhausted, "more work than there is time for")) : Status();
  }

  Maybe Linear() {
    if (!IsAlike(0, 1) || call_.TypeAt(1)->rank() != 2) return std::optional<Array>();
    const Numbers x(operand_(call_.ValueAt(0))), w(operand_(call_.ValueAt(1)));
    const int64_t out = w.sizes[0], depth = w.sizes[1];
    TRY_ASSIGN(Array made, Array::Of(result()));
    TRY(Spend(made.elements * depth));
    for (int64_t i = 0; i < made.elements; ++i) {
      const int64_t row = i / out, column = i % out;
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        sum += x.at[static_cast<size_t>(row * depth + k)] * w.at[static_cast<size_t>(column * depth + k)];
      }
      if (!call_.IsNone(2)) sum += operand_(call_.ValueAt(2)).NumberAt(column);
      made.SetNumber(i, sum);
    }
    return std::optional(std::move(made));
  }

  /// beta * added + alpha * left @ right, of which a factor of 0 leaves out what it multiplies.
  Maybe Matmul(size_t left_at, size_t right_at, ValueId added, double alpha, double beta) {
    if (!IsAlike(left_at, right_at)) return std::optional<Array>();
    Numbers a(operand_(call_.ValueAt(left_at))), b(operand_(call_.ValueAt(right_at)));
    if (a.rank() == 0 || b.rank() == 0) return std::optional<Array>();
    const bool is_row = a.rank() == 1, is_column = b.rank() == 1;
    if (is_row) a.sizes.insert(a.sizes.begin(), 1);
    if (is_column) b.sizes.push_back(1);
    const int64_t rows = a.sizes.end()[-2], depth = a.sizes.back(), columns = b.sizes.back();
    // Leading dims broadcast.
    std::vector<int64_t> batch;
    const size_t most = std::max(a.sizes.size(), b.sizes.size());
    const auto size_of = [&](const Numbers& of, size_t k) {
      return k + of.sizes.size() < most ? int64_t{1} : of.sizes[k + of.sizes.size() - most];
    };
    int64_t batches = 1;
    for (size_t k = 0; k + 2 < most; ++k) {
      batch.push_back(size_of(a, k) == 1 ? size_of(b, k) : size_of(a, k));
      batches *= batch.back();
    }
    TRY_ASSIGN(Array made, Array::Of(result()));
    if (made.elements != batches * rows * columns) return std::optional<Array>();
    TRY(Spend(made.elements * depth));
    const auto matrix_of = [&](const Numbers& of, int64_t number) {
      int64_t place = 0, step = of.sizes.end()[-2] * of.sizes.back();
      for (size_t k = batch.size(); k-- > 0;) {
        const int64_t at = number % batch[k];
        number /= batch[k];
        if (size_of(of, k) == 1) continue;
        place += at * step;
        step *= size_of(of, k);
      }
      return place;
    };
    const Array* other = added == kNoValue ? nullptr : &operand_(added);
    std::vector<int64_t> apart;
    if (other != nullptr) {
      apart = other->Strides();
      const size_t missing = made.sizes.size() - other->sizes.size();
      for (size_t k = 0; k < apart.size(); ++k) {
        if (other->sizes[k] == 1 && made.sizes[missing + k] != 1) apart[k] = 0;
      }
      apart.insert(apart.begin(), missing, 0);
    }
    for (int64_t number = 0; number < batches; ++number) {
      const int64_t left = matrix_of(a, number), right = matrix_of(b, number);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (int64_t k = 0; alpha != 0 && k < depth; ++k) {
            sum += a.at[static_cast<size_t>(left + i * depth + k)] * b.at[static_cast<size_t>(right + k * columns + j)];
          }
          const int64_t at = (number * rows + i) * columns + j;
          sum = alpha == 0 ? 0 : alpha * sum;
          if (other != nullptr && beta != 0) sum += beta * other->NumberAt(PlaceOf(made.sizes, apart, at));
          made.SetNumber(at, sum);
        }
      }
    }
    return std::optional(std::move(made));
  }

  struct Window {
    std::vector<int64_t> stride, padding, dilation;
    int64_t groups = 1;
  };

  /// One number for all dims, or one for each.
  static std::optional<std::vector<int64_t>> ForDims(std::optional<std::vector<int64_t>> ints, size_t dims,
                                                     int64_t otherwise) {
    if (!ints || ints->empty()) return std::vector<int64_t>(dims, otherwise);
    if (ints->size() == 1) return std::vector<int64_t>(dims, ints->front());
    return ints->size() == dims ? ints : std::nullopt;
  }

  Maybe Conv(std::string_view op) {
    if (!IsAlike(0, 1)) return std::optional<Array>();
    const Numbers x(operand_(call_.ValueAt(0))), w(operand_(call_.ValueAt(1)));
    const bool is_transposed = op.find("transpose") != std::string_view::npos;
    const bool has_words = op.ends_with(".padding");
    const size_t dims = w.sizes.size() - 2;
    if (w.sizes.size() < 3 || x.sizes.size() != w.sizes.size()) return std::optional<Array>();
    const auto stride = ForDims(call_.IntsAt(3), dims, 1);
    const auto dilation = ForDims(call_.IntsAt(is_transposed ? 7 : 5), dims, 1);
    const auto groups = call_.IsNone(6) ? std::optional<int64_t>(1) : call_.IntAt(6);
    auto padding = has_words ? std::optional<std::vector<int64_t>>() : ForDims(call_.IntsAt(4), dims, 0);
    if (!stride || !dilation || !groups || *groups <= 0 || std::ranges::min(*stride) <= 0)
      return std::optional<Array>();
    if (has_words) {
      const auto word = call_.NameAt(4);
      padding.emplace(dims, 0);
      // "same": what is odd is more behind than before.
      for (size_t k = 0; word == "same" && k < dims; ++k) (*padding)[k] = (*dilation)[k] * (w.sizes[2 + k] - 1) / 2;
    }
    if (!padding) return std::optional<Array>();
    return Convolved(x, w, {*stride, *padding, *dilation, *groups}, is_transposed);
  }

  Maybe Convolved(const Numbers& x, const Numbers& w, const Window& window, bool is_transposed) {
    const size_t dims = w.sizes.size() - 2;
    TRY_ASSIGN(Array made, Array::Of(result()));
    const int64_t in = x.sizes[1], out = made.sizes[1];
    const int64_t in_each = in / window.groups, out_each = out / window.groups;
    int64_t taps = 1;
    for (size_t k = 0; k < dims; ++k) taps *= w.sizes[2 + k];
    TRY(Spend(made.elements * taps * in_each));
    std::vector<int64_t> at(made.sizes.size());
    for (int64_t number = 0; number < made.elements; ++number) {
      for (int64_t k = static_cast<int64_t>(at.size()), rest = number; k-- > 0;) {
        at[static_cast<size_t>(k)] = rest % made.sizes[static_cast<size_t>(k)];
        rest /= made.sizes[static_cast<size_t>(k)];
      }
      const int64_t group = at[1] / out_each;
      double sum = call_.IsNone(2) ? 0 : operand_(call_.ValueAt(2)).NumberAt(at[1]);
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t pixel = 0, rest = tap;
        bool is_inside = true;
        std::vector<int64_t> places(dims);
        for (size_t k = dims; k-- > 0;) {
          const int64_t u = rest % w.sizes[2 + k];
          rest /= w.sizes[2 + k];
          if (is_transposed) {
            const int64_t from = at[2 + k] + window.padding[k] - u * window.dilation[k];
            is_inside &= from % window.stride[k] == 0;
            places[k] = from / window.stride[k];
            is_inside &= from >= 0;
          } else {
            places[k] = at[2 + k] * window.stride[k] - window.padding[k] + u * window.dilation[k];
          }
          is_inside &= places[k] >= 0 && places[k] < x.sizes[2 + k];
        }
        if (!is_inside) continue;
        int64_t pixels = 1;
        for (size_t k = 0; k < dims; ++k) {
          pixel = pixel * x.sizes[2 + k] + places[k];
          pixels *= x.sizes[2 + k];
        }
        for (int64_t c = 0; c < in_each; ++c) {
          const int64_t channel = group * in_each + c;
          const int64_t weight =
              is_transposed ? (channel * out_each + at[1] % out_each) * taps + tap : (at[1] * in_each + c) * taps + tap;
          sum += x.at[static_cast<size_t>((at[0] * in + channel) * pixels + pixel)] * w.at[static_cast<size_t>(weight)];
        }
      }
      made.SetNumber(number, sum);
    }
    return std::optional(std::move(made));
  }

  /// softmax(scale * q k' + mask) v; rows that see nothing are zeros.
  Maybe Attention() {
    if (!IsAlike(0, 1) || !IsAlike(1, 2) || call_.FloatAt(4).value_or(0) != 0) return std::optional<Array>();
    const Numbers q(operand_(call_.ValueAt(0))), k(operand_(call_.ValueAt(1))), v(operand_(call_.ValueAt(2)));
    if (q.rank() < 3 || q.rank() != k.rank() || q.rank() != v.rank()) return std::optional<Array>();
    const int64_t queries = q.sizes.end()[-2], width = q.sizes.back(), keys = k.sizes.end()[-2];
    const int64_t out = v.sizes.back();
    TRY_ASSIGN(Array made, Array::Of(result()));
    if (made.sizes.back() != out || made.sizes.end()[-2] != queries) return std::optional<Array>();
    TRY(Spend(made.elements / std::max<int64_t>(1, out) * keys * (width + out)));
    const double scale = call_.IsNone(6) ? 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, width)))
                                         : call_.FloatAt(6).value_or(1);
    const bool is_causal = call_.BoolAt(5).value_or(false), groups_heads = call_.BoolAt(7).value_or(false);
    const Array* mask = call_.IsNone(3) ? nullptr : &operand_(call_.ValueAt(3));
    const int64_t batches = made.elements / std::max<int64_t>(1, queries * out);
    for (int64_t number = 0; number < batches; ++number) {
      const int64_t qm = MatrixOf(q.sizes, made.sizes, number, false),
                    km = MatrixOf(k.sizes, made.sizes, number, groups_heads),
                    vm = MatrixOf(v.sizes, made.sizes, number, groups_heads);
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<double> scores(static_cast<size_t>(keys));
        double most = -kInf;
        for (int64_t j = 0; j < keys; ++j) {
          double& score = scores[static_cast<size_t>(j)];
          for (int64_t d = 0; d < width; ++d) {
            score += q.at[static_cast<size_t>((qm * queries + i) * width + d)] *
                     k.at[static_cast<size_t>((km * keys + j) * width + d)];
          }
          score *= scale;
          if (is_causal && j > i) score = -kInf;
          if (mask != nullptr) {
            const int64_t at = MaskAt(*mask, made.sizes, number, i, j);
            if (mask->dtype != DType::kBool)
              score += mask->NumberAt(at);
            else if (mask->NumberAt(at) == 0)
              score = -kInf;
          }
          most = std::max(most, score);
        }
        double total = 0;
        for (double& score : scores) {
          score = most == -kInf ? 0 : std::exp(score - most);
          total += score;
        }
        for (int64_t d = 0; d < out; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < keys; ++j) {
            if (scores[static_cast<size_t>(j)] == 0) continue;
            sum += scores[static_cast<size_t>(j)] * v.at[static_cast<size_t>((vm * keys + j) * out + d)];
          }
          made.SetNumber((number * queries + i) * out + d, total == 0 ? 0 : sum / total);
        }
      }
    }
    return std::optional(std::move(made));
  }

  /// Which of an operand's matrices meets number `number` of the result's; heads may be shared by neighbours.
  static int64_t MatrixOf(const std::vector<int64_t>& sizes, const std::vector<int64_t>& result, int64_t number,
                          bool groups_heads) {
    int64_t place = 0, step = 1;
    for (size_t k = result.size() - 2; k-- > 0;) {
      int64_t at = number % result[k];
      number /= result[k];
      if (groups_heads && k + 3 == result.size()) at /= result[k] / sizes[k];
      if (sizes[k] != 1) place += at * step;
      step *= sizes[k];
    }
    return place;
  }

  static int64_t MaskAt(const Array& mask, const std::vector<int64_t>& result, int64_t number, int64_t i, int64_t j) {
    const std::vector<int64_t> strides = mask.Strides();
    const size_t rank = mask.sizes.size();
    int64_t place = 0;
    if (mask.sizes[rank - 1] != 1) place += j;
    if (rank >= 2 && mask.sizes[rank - 2] != 1) place += i * strides[rank - 2];
    for (size_t back = 3; back <= result.size(); ++back) {
      const int64_t size = result[result.size() - back];
      const int64_t at = number % size;
      number /= size;
      if (back <= rank && mask.sizes[rank - back] != 1) place += at * strides[rank - back];
    }
    return place;
  }

  const Graph& graph_;
  const Node& node_;
  const Call call_;
  const OperandOf& operand_;
  const uint64_t work_max_;
  uint64_t& work_;
};

}  // namespace

Result<std::optional<Array>> ProductOf(const Graph& graph, const Node& node, const OperandOf& operand,
                                       uint64_t work_max, uint64_t& work) {
  return Products(graph, node, operand, work_max, work).Make();
}

}  // namespace ingot::compiler
