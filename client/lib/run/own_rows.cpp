// SPDX-License-Identifier: Apache-2.0
// ingot_client::own_rows, the one operator of plans that is not PyTorch's: the block of a tensor that is this rank's.
#include <ATen/core/Tensor.h>
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

namespace ingot::client {
namespace {

/// Memory of its own: of `ranks` equal blocks along `dim`, that of this process's rank in the group.
at::Tensor OwnRows(const at::Tensor& input, int64_t dim, int64_t ranks, std::string group_name) {
  const auto group = c10d::resolve_process_group(group_name);
  TORCH_CHECK(group->getSize() == ranks, "the group has ", group->getSize(), " ranks, ", ranks,
              " when this was compiled");
  TORCH_CHECK(input.size(dim) % ranks == 0, input.size(dim), " rows for ", ranks, " ranks");
  const int64_t rows = input.size(dim) / ranks;
  return input.narrow(dim, group->getRank() * rows, rows).clone(at::MemoryFormat::Contiguous);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(ingot_client, library) {
  library.def("own_rows(Tensor input, int dim, int ranks, str group_name) -> Tensor");
  library.impl("own_rows", c10::DispatchKey::CPU, OwnRows);
}

}  // namespace ingot::client
