// SPDX-License-Identifier: Apache-2.0
#include "client/archive/archive_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "client/archive/guard_code.h"
#include "client/archive/result_tree.h"
#include "client/archive/sym_expr.h"
#include "client/lib/exported/torch_names.h"
#include "client/lib/run/tensor_memory.h"
#include "client/native/trace/tensor_table.h"

namespace ingot::client {
namespace {

using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using guards::Dim;

constexpr std::string_view kModel = "models/model.json";
constexpr size_t kSymbolsMax = 64;
/// torch.export writes bounds near its own infinity for symbols without one.
constexpr int64_t kBoundMax = int64_t{1} << 48;

/// An argument that the program was traced with and takes no other value for.
bool IsConstant(const json& argument) {
  constexpr std::string_view kKinds[] = {"as_none", "as_int", "as_float", "as_bool", "as_string"};
  return std::any_of(std::begin(kKinds), std::end(kKinds),
                     [&](std::string_view kind) { return argument.contains(kind); });
}

/// The node of an argument structure for a constant (IsConstant).
Result<OrderedJson> ConstantNode(const json& value) {
  if (value.contains("as_int")) return OrderedJson{{"t", "int"}, {"v", value["as_int"]}};
  if (value.contains("as_bool")) return OrderedJson{{"t", "bool"}, {"v", value["as_bool"]}};
  if (value.contains("as_string")) return OrderedJson{{"t", "text"}, {"v", value["as_string"]}};
  if (!value.contains("as_float")) return OrderedJson{{"t", "none"}};
  TRY_ASSIGN(const double number, Float(value["as_float"]));
  return OrderedJson{{"t", "float"}, {"v", fmt::format("{:a}", number)}};
}

}  // namespace

Bytes MemoryOf(const at::Tensor& tensor) {
  const auto [first, last] = RangeOf(tensor);
  return {first, last};
}

Status ExportArchive::State::Read() {
  TRY_ASSIGN(const json program, reader.Json(std::string(kModel)));
  const json& major = program.at("schema_version").at("major");
  if (major != 8) {
    return Error(Code::kIncompatible,
                 fmt::format("schema version {} of torch.export, this build reads 8", major.dump()));
  }
  graph = program.at("graph_module").at("graph");
  const json& calls = program.at("graph_module").at("module_call_graph");
  const auto root = std::find_if(calls.begin(), calls.end(), [](const json& call) { return call.at("fqn") == ""; });
  if (root == calls.end()) return Error(Code::kCorrupt, "no signature of the whole program");
  result_spec = root->at("signature").at("out_spec").get<std::string>();
  TRY(ReadSymbols(program));
  TRY(ReadTensors());
  const json& signature = program.at("graph_module").at("signature");
  TRY(ReadInputs(signature.at("input_specs")));
  TRY(ReadArguments(signature.at("input_specs"), root->at("signature")));
  TRY(ReadConditions(program));
  return ReadResults(signature.at("output_specs"));
}

Status ExportArchive::State::ReadSymbols(const json& program) {
  const json& ranges = program.at("range_constraints");
  if (ranges.size() > kSymbolsMax) return Error(Code::kUnsupported, fmt::format("{} symbolic sizes", ranges.size()));
  for (const auto& [symbol, range] : ranges.items()) {
    ArchiveSymbol made{symbol};
    const auto bound = [&range](const char* which) -> std::optional<int64_t> {
      if (!range.contains(which) || !range[which].is_number_integer()) return std::nullopt;
      const auto value = range[which].get<int64_t>();
      return value > kBoundMax || value < -kBoundMax ? std::nullopt : std::optional(value);
    };
    made.min = std::max<int64_t>(bound("min_val").value_or(0), 0);
    made.max = bound("max_val");
    if (made.max && *made.max < made.min) return Error(Code::kCorrupt, fmt::format("range of {}", symbol));
    made.hint = made.min;
    symbols.push_back(std::move(made));
  }
  return {};
}

/// The bounds of each symbol do not say how sizes compare to each other, or what they leave when they are divided.
Status ExportArchive::State::ReadConditions(const json& program) {
  // Versions of PyTorch that did not write it down chose ways by sizes all the same.
  if (!symbols.empty() && !program.contains("guards_code")) {
    return Error(Code::kIncompatible,
                 "has open sizes and does not say which of them its program is for: load it and save it again with "
                 "torch.export.save of this PyTorch");
  }
  const std::map<std::string, size_t> places = PlacesOf(OrderedJson::parse(arguments));
  const SizeAt size_at = [&](std::string_view place, int64_t dim) -> const Dim* {
    const auto found = places.find(std::string(place));
    if (found == places.end() || dim < 0) return nullptr;
    const std::vector<Dim>& sizes = inputs[found->second].sizes;
    return static_cast<size_t>(dim) < sizes.size() ? &sizes[static_cast<size_t>(dim)] : nullptr;
  };
  for (const json& guard : program.value("guards_code", json::array())) {
    TRY(AddGuardCode(guard.get<std::string>(), size_at, conditions));
  }
  return {};
}

Status ExportArchive::State::ReadTensors() {
  for (const std::string kind : {"weights", "constants"}) {
    const std::string folder = "data/" + kind + "/";
    const std::string record = folder + "model_" + kind + "_config.json";
    if (!reader.Has(record)) continue;
    TRY_ASSIGN(const json config, reader.Json(record));
    for (const auto& [target, payload] : config.at("config").items()) {
      Result<at::Tensor> tensor = reader.Tensor(folder, payload);
      if (!tensor) return std::move(tensor).error().Wrap(fmt::format("weight '{}'", target));
      untouched[target] = DigestOf(MemoryOf(*tensor));
      tensors[target] = *std::move(tensor);
    }
  }
  return {};
}

Status ExportArchive::State::ReadInputs(const json& specs) {
  for (const json& spec : specs) {
    if (!spec.is_object() || spec.size() != 1) return Error(Code::kCorrupt, "an input of no kind");
    const std::string kind = spec.begin().key();
    const json& body = spec.begin().value();
    const char* const field = kind == "parameter" ? "parameter_name"
                              : kind == "buffer"  ? "buffer_name"
                                                  : "tensor_constant_name";
    if (kind == "parameter" || kind == "buffer" || kind == "tensor_constant") {
      const ArchiveWeight bound{body.at("arg").at("name").get<std::string>(), body.at(field).get<std::string>(),
                                kind == "buffer"};
      if (!tensors.contains(bound.target)) {
        return Error(Code::kCorrupt, fmt::format("weight '{}' is missing", bound.target));
      }
      weights.push_back(bound);
    } else if (kind == "user_input" && body.at("arg").contains("as_tensor")) {
      TRY(ReadTensorInput(body.at("arg").at("as_tensor").at("name").get<std::string>()));
    } else if (kind != "constant_input" && (kind != "user_input" || !IsConstant(body.at("arg")))) {
      return Error(Code::kUnsupported, fmt::format("an input of kind '{}' that is no tensor", kind));
    }
  }
  return {};
}

/// The call of the archive's example: its structure, and a tensor or a constant at each leaf.
Status ExportArchive::State::ReadArguments(const json& specs, const json& call) {
  std::vector<OrderedJson> leaves;
  size_t tensor = 0;
  for (const json& spec : specs) {
    const std::string kind = spec.begin().key();
    if (kind != "user_input" && kind != "constant_input") continue;
    const json& value = spec.begin().value().at(kind == "user_input" ? "arg" : "value");
    if (value.contains("as_tensor")) {
      const ArchiveShape& shape = shapes.at(tensor);
      const auto dtype = DTypeOf(shape.dtype);
      if (!dtype)
        return Error(Code::kUnsupported, fmt::format("input '{}' has no known element type", inputs[tensor].name));
      leaves.push_back({{"t", "tensor"},
                        {"i", tensor},
                        {"dtype", TorchNameOf(static_cast<guards::DType>(*dtype))},
                        {"rank", shape.sizes.size()}});
      ++tensor;
    } else {
      TRY_ASSIGN(OrderedJson constant, ConstantNode(value));
      leaves.push_back(std::move(constant));
    }
  }
  TRY_ASSIGN(OrderedJson tree, ResultTree(call.at("in_spec").get<std::string>(), leaves, /*strict=*/true));
  OrderedJson& positional = tree.at("c").at(0);
  OrderedJson& named = tree.at("c").at(1);
  OrderedJson names = OrderedJson::array(), keywords = OrderedJson::object();
  const json known = call.value("forward_arg_names", json::array());
  for (size_t i = 0; i < positional.at("c").size() && known.is_array() && i < known.size(); ++i) {
    names.push_back(known[i].get<std::string>());
  }
  for (size_t i = 0; i < named.at("c").size(); ++i)
    keywords[named.at("k").at(i).get<std::string>()] = named.at("c").at(i);
  arguments = OrderedJson{{"args", positional.at("c")}, {"names", names}, {"kwargs", keywords}}.dump();
  return {};
}

Status ExportArchive::State::ReadTensorInput(const std::string& value) {
  const json& meta = graph.at("tensor_values").at(value);
  const std::string label = fmt::format("input '{}'", value);
  const auto dtype = ScalarTypeFromArchive(meta.at("dtype").get<int64_t>());
  if (!dtype || meta.at("device").at("type") != "cpu" || meta.at("layout") != 7) {
    return Error(Code::kUnsupported, label + " is no strided CPU tensor of a known element type");
  }
  Result<std::vector<Dim>> sizes = ReadDims(meta.at("sizes"));
  if (!sizes) return std::move(sizes).error().Wrap(label);
  Result<std::vector<Dim>> strides = ReadDims(meta.at("strides"));
  if (!strides) return std::move(strides).error().Wrap(label + ", strides");
  if (sizes->size() != strides->size()) {
    return Error(Code::kCorrupt, label + " has another number of strides than sizes");
  }
  for (size_t i = 0; i < sizes->size(); ++i) {
    const json& size = meta.at("sizes")[i];
    const Dim& dim = (*sizes)[i];
    const auto symbol = dim.lone_symbol();
    if (!symbol) continue;
    const json hint = size.at("as_expr").value("hint", json());
    if (!hint.is_object() || !hint.contains("as_int")) continue;
    symbols[*symbol].hint = hint["as_int"].get<int64_t>();
  }
  inputs.push_back({value, *sizes});
  shapes.push_back({*dtype, *sizes, *strides});
  return {};
}

Result<std::vector<Dim>> ExportArchive::State::ReadDims(const json& list) const {
  std::vector<std::string> names;
  for (const ArchiveSymbol& symbol : symbols) names.push_back(symbol.name);
  std::vector<Dim> dims;
  for (const json& item : list) {
    if (item.contains("as_int")) {
      dims.emplace_back(item.at("as_int").get<int64_t>());
      continue;
    }
    TRY_ASSIGN(Dim dim, ParseSymExpr(item.at("as_expr").at("expr_str").get<std::string>(), names));
    dims.push_back(std::move(dim));
  }
  return dims;
}

std::optional<std::string> ExportArchive::State::ValueOf(const std::string& target) const {
  for (const ArchiveWeight& bound : weights) {
    if (bound.target == target) return bound.value;
  }
  for (const ArchiveInput& input : inputs) {
    if (input.name == target) return input.name;
  }
  return std::nullopt;
}

Status ExportArchive::State::ReadResults(const json& specs) {
  for (const json& spec : specs) {
    if (!spec.is_object() || spec.size() != 1) return Error(Code::kCorrupt, "a result of no kind");
    const std::string kind = spec.begin().key();
    const json& body = spec.begin().value();
    if (kind == "user_output") {
      results.push_back({body.at("arg"), std::nullopt});
      continue;
    }
    const bool is_buffer = kind == "buffer_mutation", is_parameter = kind == "parameter_mutation";
    if (!is_buffer && !is_parameter && kind != "user_input_mutation") {
      return Error(Code::kUnsupported, fmt::format("a result of kind '{}'", kind));
    }
    const char* const field = is_buffer ? "buffer_name" : is_parameter ? "parameter_name" : "user_input_name";
    const auto target = ValueOf(body.at(field).get<std::string>());
    if (!target) return Error(Code::kCorrupt, fmt::format("result for unknown {}", body.at(field).dump()));
    results.push_back({{{"as_tensor", body.at("arg")}}, target});
  }
  return {};
}

}  // namespace ingot::client
