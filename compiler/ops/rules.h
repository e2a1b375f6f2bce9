// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compiler/ops/infer.h"

namespace ingot::compiler {

// The inference rules that ops.def names; grouped as their sources are.
bool InferAbs(const Call& call, std::vector<Inferred>& results);
bool InferAdaptivePool(const Call& call, std::vector<Inferred>& results);
bool InferAddmm(const Call& call, std::vector<Inferred>& results);
bool InferAlias(const Call& call, std::vector<Inferred>& results);
bool InferAllSame(const Call& call, std::vector<Inferred>& results);
bool InferAny(const Call& call, std::vector<Inferred>& results);
bool InferAnyAll(const Call& call, std::vector<Inferred>& results);
bool InferArange(const Call& call, std::vector<Inferred>& results);
bool InferArgMax(const Call& call, std::vector<Inferred>& results);
bool InferAttention(const Call& call, std::vector<Inferred>& results);
bool InferAvgPool(const Call& call, std::vector<Inferred>& results);
bool InferBinary(const Call& call, std::vector<Inferred>& results);
bool InferBroadcastTensors(const Call& call, std::vector<Inferred>& results);
bool InferCat(const Call& call, std::vector<Inferred>& results);
bool InferChunk(const Call& call, std::vector<Inferred>& results);
bool InferClamp(const Call& call, std::vector<Inferred>& results);
bool InferCompare(const Call& call, std::vector<Inferred>& results);
bool InferConv(const Call& call, std::vector<Inferred>& results);
bool InferConvTranspose(const Call& call, std::vector<Inferred>& results);
bool InferCumsum(const Call& call, std::vector<Inferred>& results);
bool InferDivMode(const Call& call, std::vector<Inferred>& results);
bool InferEmbedding(const Call& call, std::vector<Inferred>& results);
bool InferExpand(const Call& call, std::vector<Inferred>& results);
bool InferExpandAs(const Call& call, std::vector<Inferred>& results);
bool InferEye(const Call& call, std::vector<Inferred>& results);
bool InferFlatten(const Call& call, std::vector<Inferred>& results);
bool InferFloatBinary(const Call& call, std::vector<Inferred>& results);
bool InferFloatUnary(const Call& call, std::vector<Inferred>& results);
bool InferFull(const Call& call, std::vector<Inferred>& results);
bool InferFullLike(const Call& call, std::vector<Inferred>& results);
bool InferGather(const Call& call, std::vector<Inferred>& results);
bool InferIndex(const Call& call, std::vector<Inferred>& results);
bool InferIndexSelect(const Call& call, std::vector<Inferred>& results);
bool InferLinear(const Call& call, std::vector<Inferred>& results);
bool InferLogSumExp(const Call& call, std::vector<Inferred>& results);
bool InferMT(const Call& call, std::vector<Inferred>& results);
bool InferMaskedFill(const Call& call, std::vector<Inferred>& results);
bool InferMatmul(const Call& call, std::vector<Inferred>& results);
bool InferMaxDim(const Call& call, std::vector<Inferred>& results);
bool InferMaxPool(const Call& call, std::vector<Inferred>& results);
bool InferMean(const Call& call, std::vector<Inferred>& results);
bool InferMeanAll(const Call& call, std::vector<Inferred>& results);
bool InferMeshgrid(const Call& call, std::vector<Inferred>& results);
bool InferMovedim(const Call& call, std::vector<Inferred>& results);
bool InferNarrow(const Call& call, std::vector<Inferred>& results);
bool InferNewFull(const Call& call, std::vector<Inferred>& results);
bool InferNewZeros(const Call& call, std::vector<Inferred>& results);
bool InferNumpyT(const Call& call, std::vector<Inferred>& results);
bool InferOuter(const Call& call, std::vector<Inferred>& results);
bool InferPad(const Call& call, std::vector<Inferred>& results);
bool InferPermute(const Call& call, std::vector<Inferred>& results);
bool InferPredicate(const Call& call, std::vector<Inferred>& results);
bool InferReduceSame(const Call& call, std::vector<Inferred>& results);
bool InferRepeat(const Call& call, std::vector<Inferred>& results);
bool InferRepeatInterleave(const Call& call, std::vector<Inferred>& results);
bool InferReshape(const Call& call, std::vector<Inferred>& results);
bool InferRmsNorm(const Call& call, std::vector<Inferred>& results);
bool InferScalarTensor(const Call& call, std::vector<Inferred>& results);
bool InferSelect(const Call& call, std::vector<Inferred>& results);
bool InferSlice(const Call& call, std::vector<Inferred>& results);
bool InferSoftmax(const Call& call, std::vector<Inferred>& results);
bool InferSoftmaxPlain(const Call& call, std::vector<Inferred>& results);
bool InferSort(const Call& call, std::vector<Inferred>& results);
bool InferSplit(const Call& call, std::vector<Inferred>& results);
bool InferSplitSizes(const Call& call, std::vector<Inferred>& results);
bool InferSquare(const Call& call, std::vector<Inferred>& results);
bool InferSqueeze(const Call& call, std::vector<Inferred>& results);
bool InferSqueezeDims(const Call& call, std::vector<Inferred>& results);
bool InferStack(const Call& call, std::vector<Inferred>& results);
bool InferSum(const Call& call, std::vector<Inferred>& results);
bool InferSumAll(const Call& call, std::vector<Inferred>& results);
bool InferT(const Call& call, std::vector<Inferred>& results);
bool InferTensorSplit(const Call& call, std::vector<Inferred>& results);
bool InferTensorSplitAt(const Call& call, std::vector<Inferred>& results);
bool InferTernary(const Call& call, std::vector<Inferred>& results);
bool InferToDType(const Call& call, std::vector<Inferred>& results);
bool InferToDevice(const Call& call, std::vector<Inferred>& results);
bool InferToLayout(const Call& call, std::vector<Inferred>& results);
bool InferToOther(const Call& call, std::vector<Inferred>& results);
bool InferTopK(const Call& call, std::vector<Inferred>& results);
bool InferTranspose(const Call& call, std::vector<Inferred>& results);
bool InferUnary(const Call& call, std::vector<Inferred>& results);
bool InferUnbind(const Call& call, std::vector<Inferred>& results);
bool InferUnflatten(const Call& call, std::vector<Inferred>& results);
bool InferUnsqueeze(const Call& call, std::vector<Inferred>& results);
bool InferUpsample(const Call& call, std::vector<Inferred>& results);
bool InferVarCorrection(const Call& call, std::vector<Inferred>& results);
bool InferVarDim(const Call& call, std::vector<Inferred>& results);
bool InferView(const Call& call, std::vector<Inferred>& results);
bool InferViewAs(const Call& call, std::vector<Inferred>& results);
bool InferViewAsComplex(const Call& call, std::vector<Inferred>& results);
bool InferViewAsReal(const Call& call, std::vector<Inferred>& results);
bool InferWhere(const Call& call, std::vector<Inferred>& results);
bool InferZeros(const Call& call, std::vector<Inferred>& results);
bool InferZerosLike(const Call& call, std::vector<Inferred>& results);

}  // namespace ingot::compiler
