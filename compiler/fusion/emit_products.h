// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/fusion/emit_context.h"
#include "compiler/fusion/kernel_builder.h"

namespace ingot::compiler::fusion {

/// Writes the contractions of a group: blocks before all others, whose results are read from row buffers.
class ProductEmitter {
 public:
  ProductEmitter(const EmitContext& context, KernelBuilder& builder) : context_(context), builder_(builder) {}

  /// A block for each; what cannot be said fails in the writer.
  void Emit(const std::vector<Placed>& products);
  const std::vector<loop::Block>& blocks() const { return blocks_; }
  /// The row buffer of a product; nullopt: it has not been written.
  std::optional<uint32_t> BufferOf(const Placed& product) const;

 private:
  // What stands inside a contraction: what it reads, where `predicate` holds, and what decodes that.
  /// args[arg] of `e`.
  loop::Id Factor(const Expr& e, size_t arg, CoordsId at, loop::Id predicate, loop::Block& block);
  loop::Id FactorOf(ExprId id, CoordsId at, loop::Id predicate, loop::Block& block);
  /// One of two, by position.
  loop::Id FactorRegion(const Expr& e, CoordsId at, loop::Id predicate, loop::Block& block);
  /// Of what is stacked, both are there everywhere; the last stands under no condition: where it is not, the others
  /// are.
  loop::Id FactorStacked(const Expr& e, CoordsId at, loop::Id predicate, loop::Block& block);
  loop::Id Choose(loop::Id condition, loop::Id then, loop::Id otherwise, loop::Block& block);
  loop::Id FactorLoad(ValueId value, CoordsId at, loop::Id predicate, loop::Block& block);
  loop::Id IndexIn(const Affine& a, loop::Block& block);
  loop::Id SizeIn(const Dim& size, loop::Block& block) { return builder_.AppendTo(block, InstOfSize(size)); }

  const EmitContext& context_;
  KernelBuilder& builder_;
  std::vector<loop::Block> blocks_;
  std::map<Placed, uint32_t> buffers_;
};

/// Where the element at coordinates `at` of a value lies in the memory of its root.
loop::Index PlaceOf(const EmitContext& context, const KernelBuilder& builder, const Alias& alias, CoordsId at);

}  // namespace ingot::compiler::fusion
