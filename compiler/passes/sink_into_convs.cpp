// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/pattern.h"
#include "compiler/ops/call.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrites.h"

namespace ingot::compiler {
namespace {

using namespace pattern;  // NOLINT: words of the table below

/// What a convolution pads itself: as much before as behind each dim that it walks.
Refusal PadByItself(Rewriter& rewriter, const Match& match) {
  const Graph& graph = rewriter.graph();
  if (graph.eager_numerics) return "numerics as eager's";
  const Node& pad = graph.node(graph.value(match.value("padded")).def);
  const size_t walked = graph.type(match.value("x")).rank() - 2;
  const auto pads = Call(graph, pad).IntsAt(1);
  std::vector<Arg> args = rewriter.root().args;
  const auto own = Call(graph, rewriter.root()).IntsAt(4);
  if (!pads || pads->size() > 2 * walked || !own || own->size() != walked)
    return "the pads are not those of walked dims";
  Dims padding(own->begin(), own->end());
  for (size_t i = 0; i < pads->size() / 2; ++i) {
    const int64_t before = (*pads)[2 * i], behind = (*pads)[2 * i + 1];
    if (before != behind || before < 0) return "before and behind a dim there are different pads";
    padding[walked - 1 - i] = padding[walked - 1 - i] + Dim(before);
  }
  args[0] = Ref{match.value("x")};
  args[4] = std::move(padding);
  return rewriter.Redefine(rewriter.root().op, std::move(args));
}

/// The sum with one number for each channel is a convolution's bias.
Refusal AddByItself(Rewriter& rewriter, const Match& match) {
  const Graph& graph = rewriter.graph();
  if (graph.eager_numerics) return "numerics as eager's";
  const Type &type = rewriter.type(), &bias = graph.type(match.value("bias"));
  if (graph.type(match.value("conv")) != type || bias.dtype != type.dtype) return "the sum has another type";
  const Node conv = graph.node(graph.value(match.value("conv")).def);
  // conv2d has two dims besides the batch and the channels; of one image, the channels come first.
  if (type.rank() != static_cast<size_t>(conv.op[conv.op.size() - 2] - '0') + 2) return "there is no batch of images";
  const size_t from_behind = type.rank() - 1;  // Where channels are among the bias's dims.
  if (bias.rank() < from_behind || bias.rank() > type.rank()) return "the summand has not one number for each channel";
  const size_t channel = bias.rank() - from_behind;
  for (size_t i = 0; i < bias.rank(); ++i) {
    const bool is_fitting = i == channel ? bias.sizes[i] == type.sizes[1] : bias.sizes[i].is_one();
    if (!is_fitting) return "the summand has not one number for each channel";
  }
  const Result<Ref> flat = rewriter.builder().Op("aten.view", {Ref{match.value("bias")}, Dims{type.sizes[1]}});
  if (!flat) return "the summand lies apart";
  std::vector<Arg> args = conv.args;
  args[2] = *flat;
  return rewriter.Redefine(conv.op, std::move(args));
}

Pattern Conv(Pattern input, Pattern bias) {
  return Op({"aten.conv1d", "aten.conv2d", "aten.conv3d"},
            {std::move(input), Tensor(), std::move(bias), Anything(), Anything(), Anything(), Anything()});
}

Pattern PaddedWith(Pattern fill) {
  return Op("aten.pad", {Tensor("x"), Anything(), Equal(Name("constant")), std::move(fill)}).As("padded").UsedOnce();
}

}  // namespace

const RewriteSet& ConvRewrites() {
  static const auto* const set = new RewriteSet({
      {"conv(pad(x))", Conv(PaddedWith(Absent()), Anything()), PadByItself},
      {"conv(pad(x, 0))", Conv(PaddedWith(Exactly(0)), Anything()), PadByItself},
      {"conv(x) + bias",
       Op("aten.add.Tensor", {Conv(Tensor(), Absent()).As("conv").UsedOnce(), Tensor("bias"), ByDefault(1)}).Commutes(),
       AddByItself},
  });
  return *set;
}

Result<bool> SinkIntoConvs(Graph& graph) { return ConvRewrites().Run(graph); }

}  // namespace ingot::compiler
