// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>

#include "compiler/passes/decompose/decompose_rules.h"

namespace ingot::compiler {
namespace {

/// An equation of two operands, `bqhd,bkhd->bhqk`, as labels.
struct Equation {
  std::string left, right, out;
};

bool HasRepeats(std::string labels) {
  std::ranges::sort(labels);
  return std::ranges::adjacent_find(labels) != labels.end();
}

std::optional<Equation> EquationOf(std::string_view text) {
  std::string plain(text);
  std::erase(plain, ' ');
  if (plain.find('.') != std::string::npos) return std::nullopt;
  const size_t arrow = plain.find("->"), comma = plain.find(',');
  if (comma == std::string::npos || plain.find(',', comma + 1) != std::string::npos) return std::nullopt;
  if (arrow != std::string::npos && comma > arrow) return std::nullopt;
  Equation equation;
  equation.left = plain.substr(0, comma);
  equation.right = plain.substr(comma + 1, arrow == std::string::npos ? arrow : arrow - comma - 1);
  if (arrow != std::string::npos) {
    equation.out = plain.substr(arrow + 2);
  } else {
    // Labels that stand once, in order.
    std::string all = equation.left + equation.right;
    std::ranges::sort(all);
    for (const char label : all) {
      if (std::ranges::count(all, label) == 1) equation.out += label;
    }
  }
  if (HasRepeats(equation.left) || HasRepeats(equation.right) || HasRepeats(equation.out)) return std::nullopt;
  return equation;
}

/// The labels of `one` that `keep` accepts, in the order of `one`.
template <typename Keep>
std::string Chosen(const std::string& one, Keep keep) {
  std::string chosen;
  std::ranges::copy_if(one, std::back_inserter(chosen), keep);
  return chosen;
}

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

std::vector<size_t> PlacesOf(const std::string& wanted, const std::string& labels) {
  std::vector<size_t> places;
  for (const char label : wanted) places.push_back(labels.find(label));
  return places;
}

Dims SizesOf(const std::string& wanted, const std::string& labels, const Type& type) {
  Dims sizes;
  for (const char label : wanted) sizes.push_back(type.sizes[labels.find(label)]);
  return sizes;
}

Dims Joined(Dims front, const Dims& behind) {
  front.insert(front.end(), behind.begin(), behind.end());
  return front;
}

}  // namespace

/// outer(a, b)
Parts OuterInParts(Composite& c) {
  TRY_ASSIGN(const Ref a, c.Tensor(0));
  TRY_ASSIGN(const Ref b, c.Tensor(1));
  TRY_ASSIGN(const Ref column, c.Op("aten.unsqueeze", {a, Dim(1)}));
  TRY_ASSIGN(const Ref y, c.Mul(column, b));
  return std::vector<Ref>{y};
}

/// einsum(equation, operands): of two operands, a batched product between permutations.
Parts EinsumInParts(Composite& c) {
  const auto text = c.call().NameAt(0);
  const auto* operands = c.call().Get<RefList>(1);
  const auto equation = text ? EquationOf(*text) : std::nullopt;
  if (!equation || operands == nullptr || operands->ids.size() != 2) return Whole("not a product of two");
  const std::string& out = equation->out;
  std::string left = equation->left, right = equation->right;
  Ref a{operands->ids[0]}, b{operands->ids[1]};
  // As eager: whose labels come first is the left one, so that the product lies in the result's order.
  const auto own = std::ranges::find_if(out, [&](char l) { return Has(left, l) != Has(right, l); });
  if (own != out.end() && Has(right, *own)) {
    std::swap(left, right);
    std::swap(a, b);
  }
  const Type a_type = c.type(a), b_type = c.type(b);
  if (a_type.rank() != left.size() || b_type.rank() != right.size()) return Whole("labels are not those of the dims");

  const std::string batch = Chosen(out, [&](char l) { return Has(left, l) && Has(right, l); });
  const std::string rows = Chosen(out, [&](char l) { return Has(left, l) && !Has(right, l); });
  const std::string columns = Chosen(out, [&](char l) { return !Has(left, l) && Has(right, l); });
  const std::string summed = Chosen(left, [&](char l) { return Has(right, l) && !Has(out, l); });
  const bool has_all = batch.size() + rows.size() + columns.size() == out.size() &&
                       batch.size() + rows.size() + summed.size() == left.size() &&
                       batch.size() + columns.size() + summed.size() == right.size();
  if (!has_all || summed.empty()) return Whole("labels stand alone");
  const Dims depth = SizesOf(summed, left, a_type), batches = SizesOf(batch, left, a_type);
  // A dim of one element would be repeated.
  if (depth != SizesOf(summed, right, b_type) || batches != SizesOf(batch, right, b_type)) return Whole("sizes differ");

  // Batches stay apart, so that operands are read where they lie; what is one dim of a matrix becomes one.
  const Dims row_sizes = SizesOf(rows, left, a_type), column_sizes = SizesOf(columns, right, b_type);
  const Dim row_count = guards::Product(row_sizes), column_count = guards::Product(column_sizes);
  const Dim deep = guards::Product(depth);
  TRY_ASSIGN(Ref a_matrix, c.Permute(a, PlacesOf(batch + rows + summed, left)));
  TRY_ASSIGN(a_matrix, c.Reshape(a_matrix, Joined(batches, {row_count, deep})));
  TRY_ASSIGN(Ref b_matrix, c.Permute(b, PlacesOf(batch + summed + columns, right)));
  TRY_ASSIGN(b_matrix, c.Reshape(b_matrix, Joined(batches, {deep, column_count})));
  // Nothing is added up over a depth of one: a sum would turn -0.0 into 0.0, as eager's product of elements does not.
  TRY_ASSIGN(const Ref product, c.Op(deep.is_one() ? "aten.mul.Tensor" : "aten.matmul", {a_matrix, b_matrix}));
  TRY_ASSIGN(const Ref apart, c.Reshape(product, Joined(Joined(batches, row_sizes), column_sizes)));
  TRY_ASSIGN(const Ref y, c.Permute(apart, PlacesOf(out, batch + rows + columns)));
  return std::vector<Ref>{y};
}

}  // namespace ingot::compiler
