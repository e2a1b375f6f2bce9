// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/onnx_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "client/lib/exported/torch_names.h"
#include "client/native/trace/recorder.h"
#include "client/native/trace/tensor_table.h"
#include "client/onnx/element_types.h"
#include "client/onnx/evaluator.h"
#include "client/onnx/model.h"
#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {

using Json = nlohmann::ordered_json;
using guards::Dim;

constexpr size_t kSymbolsMax = 64;
constexpr size_t kConstantBytesMax = 16 << 20;
/// Of an input that is made up.
constexpr int64_t kElementsMax = int64_t{1} << 28;
constexpr int64_t kSizeMax = int64_t{1} << 40;

/// Values do not matter to a recording, but indices must be in range wherever they are used.
at::Tensor MakeUp(const std::vector<int64_t>& sizes, at::ScalarType dtype, int64_t whole) {
  at::Tensor made = at::empty(sizes, dtype);
  if (dtype == at::kBool) return made.fill_(true);
  if (at::isFloatingType(dtype) || at::isComplexType(dtype)) return made.fill_(0.5);
  return made.fill_(whole);
}

/// Numbers in one dim; an integer stays one. nullopt: the type does not hold one of them.
std::optional<at::Tensor> MadeOfNumbers(const std::vector<InputNumber>& numbers, at::ScalarType dtype) {
  std::vector<double> floats;
  std::vector<int64_t> integers;
  for (const InputNumber& number : numbers) {
    const auto* const integer = std::get_if<int64_t>(&number);
    const double value = integer != nullptr ? static_cast<double>(*integer) : std::get<double>(number);
    floats.push_back(value);
    if (!at::isIntegralType(dtype, /*includeBool=*/true)) continue;
    if (integer == nullptr && !(value == std::floor(value) && std::abs(value) <= 0x1p53)) return std::nullopt;
    integers.push_back(integer != nullptr ? *integer : static_cast<int64_t>(value));
    const auto [low, high] = ExtremesOf(dtype);
    if (integers.back() < low || integers.back() > high) return std::nullopt;
  }
  return (integers.empty() ? at::tensor(floats, at::kDouble) : at::tensor(integers, at::kLong)).to(dtype);
}

/// A model's outputs are tensors of their own, whatever its nodes do with memory: none shares it with an input, with a
/// constant, or with an output before it. To be called when no more constants are made: evaluating an output makes
/// some.
void OwnMemory(std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, const Constants& constants) {
  std::vector<at::Tensor> others = inputs;
  for (const auto& [name, constant] : constants.tensors) others.push_back(constant);
  for (at::Tensor& output : outputs) {
    const auto shares = [&output](const at::Tensor& other) { return other.is_alias_of(output); };
    if (std::ranges::any_of(others, shares)) output = output.clone(at::MemoryFormat::Contiguous);
    others.push_back(output);
  }
}

}  // namespace

struct OnnxModel::State {
  std::string name;
  Model model;
  std::vector<ModelSymbol> symbols;
  std::vector<ModelInput> inputs;
  std::vector<at::ScalarType> dtypes;         ///< of `inputs`
  std::map<std::string, at::Tensor> values;  ///< inputs that are numbers
  Constants constants;
  std::map<std::string, Buffer> elements;  ///< of Weight()
  std::string arguments, outputs;

  Status Read(const InputValues& given);
  Status ReadInput(const ValueInfo& info);
  Status ReadValue(const ValueInfo& info, const std::vector<InputNumber>& numbers);
  Dim SymbolOf(const std::string& name);
  /// `whole`: what elements of integers are made up as.
  Result<Buffer> Record(std::span<const int64_t> values, std::span<const ModelSymbol> ranges, int64_t whole,
                        const Way& way, Way* taken);
  void NoteRanges(const client::Recorder& recorder, const std::vector<at::Tensor>& made,
                  std::span<const ModelSymbol> ranges, Sizes& sizes) const;
};

Status OnnxModel::State::Read(const InputValues& given) {
  for (const auto& [domain, version] : model.opsets) {
    if (domain == "com.microsoft" && version != 1) {
      return Error(Code::kUnsupported, fmt::format("opset {} of com.microsoft; 1 is known", version));
    }
    if (!domain.empty()) continue;  // What is of another domain is refused node by node.
    if (version < 1 || version > kOpsetMax) {
      return Error(Code::kUnsupported,
                   fmt::format("opset {}; {} to {} are known. Export the model for one of those, or convert it",
                               version, kOpsetMin, kOpsetMax));
    }
  }
  for (const auto& [name, numbers] : given) {
    const auto is_it = [&name = name](const ValueInfo& info) { return info.name == name; };
    const auto info = std::ranges::find_if(model.inputs, is_it);
    if (info == model.inputs.end()) return Error(Code::kInvalid, fmt::format("'{}' is no input of the model", name));
    TRY(ReadValue(*info, numbers));
  }
  Json arguments_json = {{"args", Json::array()}, {"names", Json::array()}, {"kwargs", Json::object()}};
  for (const ValueInfo& info : model.inputs) {
    if (values.contains(info.name)) continue;
    TRY(ReadInput(info));
    const auto dtype = client::DTypeOf(dtypes.back());
    if (!dtype)
      return Error(Code::kUnsupported, fmt::format("input '{}' has elements of type {}", info.name, info.type));
    arguments_json["args"].push_back({{"t", "tensor"},
                                      {"i", inputs.size() - 1},
                                      {"dtype", client::TorchNameOf(static_cast<guards::DType>(*dtype))},
                                      {"rank", inputs.back().sizes.size()}});
    arguments_json["names"].push_back(info.name);
  }
  Json keys = Json::array(), leaves = Json::array();
  for (const ValueInfo& info : model.outputs) {
    leaves.push_back({{"t", "leaf"}, {"i", leaves.size()}});
    keys.push_back(info.name);
  }
  // Texts that are no UTF-8 would not come back as they are.
  arguments = arguments_json.dump();
  outputs = Json{{"t", "dict"}, {"k", keys}, {"c", leaves}}.dump();
  return {};
}

Dim OnnxModel::State::SymbolOf(const std::string& symbol) {
  const auto is_it = [&](const ModelSymbol& known) { return known.name == symbol; };
  const auto found = std::ranges::find_if(symbols, is_it);
  const auto number = static_cast<uint16_t>(found - symbols.begin());
  if (found == symbols.end()) symbols.push_back({symbol, 0, std::nullopt});
  return Dim::Symbol(number);
}

Status OnnxModel::State::ReadInput(const ValueInfo& info) {
  const std::string label = fmt::format("input '{}'", info.name);
  if (!info.dtype) return Error(Code::kUnsupported, fmt::format("{} is of type {}", label, info.type));
  if (!info.dims) {
    return Error(Code::kUnsupported,
                 label + " may have any number of dims; give it a shape in the model, where sizes may be names");
  }
  ModelInput& input = inputs.emplace_back(ModelInput{info.name, {}});
  for (const Dimension& dim : *info.dims) {
    if (dim.size && (*dim.size < 0 || *dim.size > kSizeMax)) {
      return Error(Code::kCorrupt, fmt::format("{} has a size of {}", label, *dim.size));
    }
    if (dim.size) {
      input.sizes.emplace_back(*dim.size);
      continue;
    }
    if (symbols.size() >= kSymbolsMax)
      return Error(Code::kUnsupported, fmt::format("{} symbolic sizes", symbols.size()));
    input.sizes.push_back(SymbolOf(dim.name.empty() ? fmt::format("{}.{}", info.name, input.sizes.size()) : dim.name));
  }
  dtypes.push_back(*info.dtype);
  return {};
}

Status OnnxModel::State::ReadValue(const ValueInfo& info, const std::vector<InputNumber>& numbers) {
  if (!info.dtype) return Error(Code::kUnsupported, fmt::format("input '{}' is of type {}", info.name, info.type));
  std::vector<int64_t> sizes;
  const auto count = static_cast<int64_t>(numbers.size());
  int64_t known = 1, open = 0;
  for (const Dimension& dim : info.dims.value_or(std::vector<Dimension>{{count, ""}})) {
    sizes.push_back(dim.size.value_or(-1));
    if (dim.size && __builtin_mul_overflow(known, std::max<int64_t>(*dim.size, 0), &known)) known = -1;
    open += dim.size ? 0 : 1;
  }
  if (open == 1 && known > 0 && count % known == 0) {
    std::ranges::replace(sizes, int64_t{-1}, count / known);
    known = count;
  }
  if (open > 1 || known != count) {
    return Error(Code::kInvalid, fmt::format("input '{}' does not take {} numbers", info.name, count));
  }
  const auto tensor = MadeOfNumbers(numbers, *info.dtype);
  if (!tensor) {
    return Error(Code::kInvalid,
                 fmt::format("input '{}' takes numbers of type {}, which these are not", info.name, info.type));
  }
  values[info.name] = tensor->view(sizes);
  return {};
}

/// What the model promises of sizes: numbers, names that come twice, and ranges that the caller chose.
void OnnxModel::State::NoteRanges(const client::Recorder& recorder, const std::vector<at::Tensor>& made,
                                  std::span<const ModelSymbol> ranges, Sizes& sizes) const {
  sizes.set_where("the model's inputs");
  std::map<uint16_t, Int> seen;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto value = recorder.ValueOf(made[i]);
    for (size_t d = 0; value && d < inputs[i].sizes.size(); ++d) {
      const Dim& dim = inputs[i].sizes[d];
      const Int size = sizes.OfValue(*value, static_cast<int64_t>(d), made[i].size(static_cast<int64_t>(d)));
      if (dim.is_const()) {
        size.Fix();
        continue;
      }
      const uint16_t symbol = *dim.lone_symbol();
      if (const auto [first, fresh] = seen.emplace(symbol, size); !fresh) {
        sizes.Note(proto::SizeRelation::Equal, size, first->second);
        continue;
      }
      const ModelSymbol& range = ranges[symbol];
      if (range.max == range.min) size.Fix();
      if (range.min > 0) sizes.Note(proto::SizeRelation::LessOrEqual, Int(range.min), size);
      if (range.max) sizes.Note(proto::SizeRelation::LessOrEqual, size, Int(*range.max));
    }
  }
}

Result<Buffer> OnnxModel::State::Record(std::span<const int64_t> numbers, std::span<const ModelSymbol> ranges,
                                        int64_t whole, const Way& way, Way* taken) {
  const at::AutoGradMode no_grad(false);
  client::Recorder recorder;
  std::vector<at::Tensor> made;
  Evaluator evaluator(model, recorder, constants);
  for (const auto& [input, tensor] : values) {
    evaluator.Bind(input, {constants.Add(input, tensor), nullptr, true, nullptr});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : inputs[i].sizes) sizes.push_back(dim.Eval(numbers));
    int64_t count = 1;
    for (const int64_t size : sizes) {
      if (__builtin_mul_overflow(count, size, &count) || count > kElementsMax) {
        return Error(Code::kExhausted,
                     fmt::format("input '{}' has more than {} elements", inputs[i].name, kElementsMax));
      }
    }
    made.push_back(MakeUp(sizes, dtypes[i], whole));
    recorder.DeclareInput(made.back(), inputs[i].name);
    evaluator.Bind(inputs[i].name, {made.back(), nullptr, false, nullptr});
  }
  NoteRanges(recorder, made, ranges, evaluator.sizes());
  recorder.Start();
  evaluator.SetWay(way);
  TRY(evaluator.Run());
  if (taken != nullptr) *taken = evaluator.taken();
  std::vector<at::Tensor> leaves;
  for (const ValueInfo& output : model.outputs) {
    TRY_ASSIGN(at::Tensor leaf, evaluator.Output(output.name));
    leaves.push_back(std::move(leaf));
  }
  OwnMemory(leaves, made, constants);
  recorder.Stop();
  for (const at::Tensor& leaf : leaves) recorder.NoteOutput(leaf);
  for (const client::Foreign& foreign : recorder.Foreigns()) {
    const auto found = constants.names.find(foreign.tensor.unsafeGetTensorImpl());
    if (foreign.written) return Error(Code::kInternal, "a constant was written");
    // A number without dims becomes part of the code.
    if (found == constants.names.end() || foreign.tensor.dim() == 0) {
      TRY(recorder.DeclareConstant(foreign.value, kConstantBytesMax));
    } else {
      recorder.DeclareWeight(foreign.value, found->second);
    }
  }
  recorder.NoteSizes(evaluator.sizes().Notes());
  return recorder.Finish(name, leaves);
}

OnnxModel::OnnxModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
OnnxModel::OnnxModel(OnnxModel&&) noexcept = default;
OnnxModel::~OnnxModel() = default;

Result<OnnxModel> OnnxModel::Make(Model model, std::string name, const InputValues& values) {
  auto state = std::make_unique<State>();
  state->model = std::move(model);
  state->name = std::move(name);
  try {
    TRY(state->Read(values));
  } catch (const std::exception& e) {
    return Error(Code::kCorrupt, e.what());
  }
  return OnnxModel(std::move(state));
}

Result<OnnxModel> OnnxModel::Open(const std::string& path, const InputValues& values) {
  TRY_ASSIGN(Model model, ReadModel(path));
  Result<OnnxModel> made = Make(std::move(model), std::filesystem::path(path).stem().string(), values);
  if (!made) return std::move(made).error().Wrap(path);
  return made;
}

Result<OnnxModel> OnnxModel::Parse(Bytes bytes, const std::string& folder, std::string name,
                                   const InputValues& values) {
  TRY_ASSIGN(Model model, ParseModel(bytes, folder));
  return Make(std::move(model), std::move(name), values);
}

const std::string& OnnxModel::name() const { return state_->name; }
const std::vector<ModelSymbol>& OnnxModel::symbols() const { return state_->symbols; }
const std::vector<ModelInput>& OnnxModel::inputs() const { return state_->inputs; }
const std::string& OnnxModel::arguments() const { return state_->arguments; }
const std::string& OnnxModel::outputs() const { return state_->outputs; }

Result<Buffer> OnnxModel::Record(std::span<const int64_t> values, std::span<const ModelSymbol> ranges,
                                 const std::vector<bool>& way, std::vector<bool>* taken) {
  const size_t count = state_->symbols.size();
  if (values.size() != count || ranges.size() != count) {
    return Error(Code::kInvalid,
                 fmt::format("{} sizes and {} ranges for {} symbols", values.size(), ranges.size(), count));
  }
  try {
    Result<Buffer> recording = state_->Record(values, ranges, 0, way, taken);
    // Zeros are positions everywhere, but nothing can be divided by them.
    if (recording || recording.error().code() != Code::kInvalid) return recording;
    Result<Buffer> again = state_->Record(values, ranges, 1, way, taken);
    return again ? std::move(again) : std::move(recording);
  } catch (const c10::Error& e) {
    return Error(Code::kInvalid, e.what_without_backtrace());
  } catch (const std::exception& e) {
    return Error(Code::kInvalid, e.what());
  }
}

Result<client::ExportedWeight> OnnxModel::Weight(const std::string& name) {
  const auto found = state_->constants.tensors.find(name);
  if (found == state_->constants.tensors.end()) return Error(Code::kNotFound, fmt::format("weight '{}'", name));
  const at::Tensor& tensor = found->second;
  const auto dtype = client::DTypeOf(tensor.scalar_type());
  if (!dtype) return Error(Code::kUnsupported, fmt::format("weight '{}' has an unknown element type", name));
  auto [elements, added] = state_->elements.try_emplace(name);
  if (added) elements->second = client::CopyElements(tensor);
  return client::ExportedWeight{
      name, static_cast<guards::DType>(*dtype), tensor.sizes().vec(), tensor.strides().vec(), elements->second, "", "",
      ""};
}

std::string OperatorTable() {
  std::string text;
  for (const OperatorPart& part : AllOperators()) {
    std::vector<std::string> names;
    for (const Operator& op : part.operators) {
      names.push_back(op.since > kOpsetMin ? fmt::format("{} ({})", op.name, op.since) : std::string(op.name));
    }
    std::ranges::sort(names);
    text += fmt::format("| {} | {} |\n", part.name, fmt::join(names, ", "));
  }
  return text;
}

}  // namespace ingot::onnx
