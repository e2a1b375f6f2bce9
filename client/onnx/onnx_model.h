// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "client/lib/exported/exported_file.h"
#include "guards/dim.h"

namespace ingot::onnx {

struct Model;

/// A size that a model leaves open.
struct ModelSymbol {
  std::string name;  ///< as the model has it: "batch"; of one without a name its place: "x.0"
  int64_t min = 0;
  std::optional<int64_t> max;  ///< nullopt: no bound
};

/// A tensor of the call, in order.
struct ModelInput {
  std::string name;
  std::vector<guards::Dim> sizes;  ///< over the symbols: s0 is symbols()[0]
};

/// As it was written: an f64 does not hold every integer.
using InputNumber = std::variant<int64_t, double>;
/// Numbers that stand for an input of the model, which is none of the call then.
using InputValues = std::map<std::string, std::vector<InputNumber>>;

/// An ONNX model (.onnx), understood by running it: Record() runs its nodes by ATen's operators on made-up inputs while
/// the recorder watches. Sizes are followed, so that a recording speaks for others too (docs/sizes.md).
/// Needs libtorch, but no torch header to use. Belongs to one thread.
class OnnxModel {
 public:
  /// As ReadModel (model.h); kInvalid: values for what is no input, too many, or of another type; kUnsupported: an
  /// operator set that is not known, inputs that are no tensors, or of no known number of dims.
  static Result<OnnxModel> Open(const std::string& path, const InputValues& values = {});
  /// The same of bytes in memory; `folder`: where external data lies.
  static Result<OnnxModel> Parse(Bytes bytes, const std::string& folder, std::string name,
                                 const InputValues& values = {});
  OnnxModel(OnnxModel&&) noexcept;
  ~OnnxModel();

  const std::string& name() const;
  const std::vector<ModelSymbol>& symbols() const;
  const std::vector<ModelInput>& inputs() const;

  /// The recording (proto/graph.fbs) of one run with these values for symbols(), which holds within `ranges`, one for
  /// each symbol, and where data decides as `way` says, then always for true. `taken`: the whole way. Errors name the
  /// node that failed.
  Result<Buffer> Record(std::span<const int64_t> values, std::span<const ModelSymbol> ranges,
                        const std::vector<bool>& way = {}, std::vector<bool>* taken = nullptr);
  /// Argument structure as JSON text (docs/format/export.md).
  const std::string& arguments() const;
  /// Result structure as JSON text: a dict of the outputs by name.
  const std::string& outputs() const;
  /// A weight by the name that recordings give it; its elements live as long as this.
  Result<client::ExportedWeight> Weight(const std::string& name);

 private:
  struct State;
  static Result<OnnxModel> Make(Model model, std::string name, const InputValues& values);
  explicit OnnxModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The table of operators as docs/onnx.md has it: a line for each part, "| norms | LRN, LayerNormalization (17) |"; the
/// number is the first opset that has it, where that is not the first one known.
std::string OperatorTable();

}  // namespace ingot::onnx
