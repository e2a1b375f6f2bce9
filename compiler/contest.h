// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "compiler/compile.h"
#include "proto/worker_generated.h"

namespace ingot::compiler {

/// The parts of a graph that a kernel computes and that PyTorch's libraries could (compiler/library.h): each as a graph
/// that compiles to that kernel, with the copies that it asks for, and by a recipe that chooses the library for it to
/// the library's call and what is left to do around it. Parts of `known` are left out, and those that alone would be
/// other kernels or have more than 1 GiB of operands at one of the sizes.
///
/// `sizes`: values of the graph's symbols at which a part's operands are described; those that the graph's conditions
/// rule out are passed over. kInvalid: the graph does not verify.
Result<proto::ContestsT> FindContests(const Graph& graph, const CompileOptions& options,
                                      const std::vector<std::vector<int64_t>>& sizes,
                                      const std::unordered_set<Digest>& known);

}  // namespace ingot::compiler
