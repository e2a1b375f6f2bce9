// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/substitute.h"

#include <algorithm>

namespace ingot::compiler::loop {

Kernel Substitute(Kernel kernel, std::span<const Dim> by) {
  uint16_t count = 0;
  const auto substitute = [&](Dim& dim) {
    dim = dim.Substitute(by);
    count = std::max(count, dim.SymbolCount());
  };
  for (Param& param : kernel.params) substitute(param.elements);
  for (RowBuffer& buffer : kernel.row_buffers) substitute(buffer.extent);
  for (Dim& extent : kernel.rows) substitute(extent);
  for (Block& block : kernel.blocks) {
    substitute(block.extent);
    for (Dim& depth : block.depths) substitute(depth);
  }
  for (Inst& inst : kernel.insts) {
    substitute(inst.size);
    substitute(inst.check_dim);
    substitute(inst.index.offset);
    for (Dim& coef : inst.index.coefs) substitute(coef);
    for (Index::Gathered& gathered : inst.index.gathered) substitute(gathered.coef);
  }
  kernel.symbol_count = count;
  return kernel;
}

}  // namespace ingot::compiler::loop
