// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/decompose/composite.h"

#include <utility>

#include "compiler/ops/infer.h"

namespace ingot::compiler {

Error Whole(std::string why) { return Error(Code::kUnsupported, std::move(why)); }

Result<Ref> Composite::Tensor(size_t i) const {
  if (!Has(i)) return Whole("an operand is absent");
  return Ref{call_.ValueAt(i)};
}

Result<Ref> Composite::Reshape(Ref x, Dims sizes) {
  if (!ViewStrides(type(x), sizes)) {
    TRY_ASSIGN(x, Op("aten.clone", {x, Name("contiguous_format")}));
  }
  return Op("aten.view", {x, std::move(sizes)});
}

Result<Ref> Composite::Permute(Ref x, const std::vector<size_t>& dims) {
  Dims order;
  for (const size_t dim : dims) order.push_back(Dim(static_cast<int64_t>(dim)));
  return Op("aten.permute", {x, std::move(order)});
}

Result<Ref> Composite::Slice(Ref x, size_t dim, Dim begin, Dim end) {
  return Op("aten.slice.Tensor", {x, Dim(static_cast<int64_t>(dim)), std::move(begin), std::move(end), Dim(1)});
}

Result<Ref> Composite::Cast(Ref x, DType dtype) {
  if (type(x).dtype == dtype) return x;
  return Op("aten.to.dtype", {x, DTypeArg{dtype}, false, false, None{}});
}

}  // namespace ingot::compiler
