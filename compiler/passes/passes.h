// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

class RewriteSet;
struct MissedRewrite;

// Every pass: true when it changed the graph. Types of graph outputs and of written values never
// change, so callers see eager's sizes, dtypes and strides.

/// Writes sizes, bounds and dims in one way: no -1, no negative dims, no open ends.
Result<bool> CanonicalizeShapes(Graph& graph);
/// Spells equal operations equally: add.Scalar becomes add.Tensor with a number, t and swapaxes
/// become transpose, split parts become slices, every creation of equal elements becomes full.
Result<bool> CanonicalizeVariants(Graph& graph);
/// Composites that kernels compute better in parts become those: normalisation of groups, cells of recurrent layers,
/// einsum of two operands. What is seen of them from outside stays, layouts included; else they stay whole.
Result<bool> Decompose(Graph& graph);
/// Runs small pure nodes whose operands are known; the results become constants or full.
Result<bool> FoldConstants(Graph& graph);
/// Arithmetic identities that hold bit for bit, -0.0 and NaN included.
Result<bool> SimplifyAlgebra(Graph& graph);
const RewriteSet& AlgebraRewrites();
/// Chains of views become one view.
Result<bool> SimplifyViews(Graph& graph);
/// Cats of cats are one cat, slices that are put together again are one slice, and what is taken from one part of a cat
/// is taken from that part.
Result<bool> SimplifyConcats(Graph& graph);
/// A transpose of what is computed element by element from transposes that it undoes, and from nothing else, disappears
/// with them.
Result<bool> CancelTransposes(Graph& graph);
/// Convolutions pad by themselves and add a number for each channel by themselves. Results may differ by rounding, and
/// where a weight is not finite: it is multiplied with no padding.
Result<bool> SinkIntoConvs(Graph& graph);
const RewriteSet& ConvRewrites();
/// Images between convolutions have their channels innermost, with copies where they come in and where somebody counts
/// on the layout there was: callers, views that cannot follow, operators that nobody knows. Convolutions of
/// `by_library` stay as they are.
Result<bool> AssignLayouts(Graph& graph, const std::unordered_set<NodeId>& by_library = {});
/// Nodes that give their operand back disappear.
Result<bool> RemoveNoOps(Graph& graph);
/// Equal pure nodes become one.
Result<bool> EliminateCommonSubexpressions(Graph& graph);
/// Pure nodes that nobody uses disappear. Inputs stay: callers bind them by position.
Result<bool> EliminateDeadCode(Graph& graph);
/// Matrix products read transposes directly, without a copy in between.
Result<bool> SinkTransposes(Graph& graph);
/// A sum or mean of very many elements into few results becomes the sum of partial sums, which threads share. How many
/// there are follows from the sizes alone.
Result<bool> SplitReductions(Graph& graph);
/// Sums over the ranks that Graph::sequence_parallel names come in blocks of rows, which are gathered where somebody
/// needs all of them. The ranks' parts are added in another order than all_reduce's.
Result<bool> ParallelizeSequence(Graph& graph);
/// The sums that stay whole, with reasons.
Status FindWholeSums(const Graph& graph, std::vector<MissedRewrite>& missed_rewrites);
/// Guards that cannot fail disappear: sizes that follow from the operands' sizes, and values that
/// are known.
Result<bool> DropKnownGuards(Graph& graph);
/// Guards and what they need come first, so that a failing guard costs little and precedes every
/// write.
Result<bool> HoistGuards(Graph& graph);
/// A node whose result is the final content of an input writes it where the input lies.
Result<bool> Reinplace(Graph& graph);

}  // namespace ingot::compiler
