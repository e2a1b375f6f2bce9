// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/pattern.h"
#include "compiler/ops/call.h"
#include "compiler/ops/convolution.h"
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

/// Half precision through f32, which is many times faster than what PyTorch does, and from which the sum is rounded
/// once. What would stay PyTorch's stays as it is: its layouts depend on the type.
Refusal ComputeInSingle(Rewriter& rewriter, const Match&) {
  const Graph& graph = rewriter.graph();
  if (graph.eager_numerics) return "numerics as eager's";
  std::string_view why;
  if (!ConvolutionOf(Call(graph, rewriter.root()), why, DType::kF16)) return "PyTorch convolves it";
  std::vector<Arg> args = rewriter.root().args;
  const auto cast = [&](const Ref& value, DType to) {
    Type type = graph.type(value.id);
    type.dtype = to;
    const std::vector<Arg> of = {value, DTypeArg{to}, false, false, None{}};
    return rewriter.builder().Typed("aten.to.dtype", of, std::move(type));
  };
  for (Arg& arg : args) {
    if (const Ref* ref = std::get_if<Ref>(&arg)) arg = cast(*ref, DType::kF32);
  }
  Type wide = rewriter.type();
  wide.dtype = DType::kF32;
  const Ref sum = rewriter.builder().Typed(rewriter.root().op, std::move(args), std::move(wide));
  return rewriter.Redefine("aten.to.dtype", {sum, DTypeArg{DType::kF16}, false, false, None{}});
}

Pattern Conv(Pattern input, Pattern bias) {
  return Op({"aten.conv1d", "aten.conv2d", "aten.conv3d"},
            {std::move(input), Tensor(), std::move(bias), Anything(), Anything(), Anything(), Anything()});
}

Pattern Padded() { return Op("aten.constant_pad_nd", {Tensor("x"), Anything(), ByDefault(0)}).As("padded").UsedOnce(); }

/// Apart from the others: that nothing was f16 is no news to anybody.
const RewriteSet& HalfRewrites() {
  static const auto* const set = new RewriteSet({
      {"conv(x) in f16",
       Op({"aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.conv1d.padding", "aten.conv2d.padding",
           "aten.conv3d.padding", "aten.conv_transpose1d", "aten.conv_transpose2d.input",
           "aten.conv_transpose3d.input"},
          {Tensor(), Tensor()})
           .AndMore()
           .Where("f16", [](const Type& type) { return type.dtype == DType::kF16; }),
       ComputeInSingle},
  });
  return *set;
}

}  // namespace

const RewriteSet& ConvRewrites() {
  static const auto* const set = new RewriteSet({
      {"conv(pad(x, 0))", Conv(Padded(), Anything()), PadByItself},
      {"conv(x) + bias",
       Op("aten.add.Tensor", {Conv(Tensor(), Absent()).As("conv").UsedOnce(), Tensor("bias"), ByDefault(1)}).Commutes(),
       AddByItself},
  });
  return *set;
}

Result<bool> SinkIntoConvs(Graph& graph) {
  TRY_ASSIGN(const bool sank, ConvRewrites().Run(graph));
  TRY_ASSIGN(const bool widened, HalfRewrites().Run(graph));
  return sank || widened;
}

}  // namespace ingot::compiler
