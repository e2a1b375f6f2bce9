// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/schema.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

/// Takes what stands before the next comma outside brackets.
std::string_view TakeItem(std::string_view& text) {
  size_t end = 0;
  for (int depth = 0; end < text.size() && (depth > 0 || text[end] != ','); ++end) {
    depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
  }
  const std::string_view item = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  return item;
}

Parameter::Kind KindOf(std::string_view type) {
  using enum Parameter::Kind;
  const bool is_list = type.find('[') != type.npos;
  const std::string_view word = type.substr(0, type.find_first_of("[?"));
  if (word == "Tensor") return is_list ? kTensors : kTensor;
  if (word == "int") return is_list ? kInts : kInt;
  if (word == "float") return is_list ? kFloats : kFloat;
  if (word == "Scalar") return kScalar;
  if (word == "bool") return kBool;
  if (word == "ScalarType") return kDType;
  return word == "Any" ? kAny : kName;
}

double FloatOf(std::string_view text) { return std::strtod(std::string(text).c_str(), nullptr); }
Dim IntOf(std::string_view text) { return Dim(std::strtoll(std::string(text).c_str(), nullptr, 10)); }

Arg DefaultOf(const Parameter& parameter, std::string_view text) {
  using enum Parameter::Kind;
  if (text == "None") return None{};
  if (text == "True" || text == "False") return text == "True";
  if (text.starts_with('"')) return Name(text.substr(1, text.size() - 2));
  if (text.starts_with('[')) {
    Dims dims;
    for (std::string_view rest = text.substr(1, text.size() - 2); !rest.empty();) dims.push_back(IntOf(TakeItem(rest)));
    return dims;
  }
  if (parameter.kind == kName) return Name(text);
  if (text == "long") return DTypeArg{DType::kI64};
  const bool is_float = text.find_first_of(".e") != text.npos;
  return parameter.Converted(is_float ? Arg(FloatOf(text)) : Arg(IntOf(text)));
}

Parameter ParameterOf(std::string_view text) {
  const size_t blank = text.find(' '), equal = text.find('=');
  Parameter parameter;
  parameter.type = text.substr(0, blank);
  parameter.name = text.substr(blank + 1, equal == text.npos ? equal : equal - blank - 1);
  parameter.kind = KindOf(parameter.type);
  parameter.may_be_none = parameter.type.ends_with('?');
  if (const size_t open = parameter.type.find('['); open != parameter.type.npos) {
    parameter.length = std::strtoul(parameter.type.data() + open + 1, nullptr, 10);
  }
  if (equal != text.npos) parameter.default_value = DefaultOf(parameter, text.substr(equal + 1));
  return parameter;
}

}  // namespace

bool Parameter::Takes(const Arg& arg) const {
  using enum Kind;
  if (std::holds_alternative<None>(arg)) return may_be_none || kind == kAny;
  switch (kind) {
    case kTensor: return std::holds_alternative<Ref>(arg) || std::holds_alternative<Number>(arg);
    case kTensors: return std::holds_alternative<RefList>(arg);
    case kScalar:
      return std::holds_alternative<Number>(arg) || std::holds_alternative<bool>(arg) ||
             std::holds_alternative<Dim>(arg) || std::holds_alternative<double>(arg);
    case kInt: return std::holds_alternative<Dim>(arg);
    case kInts: return std::holds_alternative<Dims>(arg) && (length < 2 || std::get<Dims>(arg).size() <= length);
    case kFloat: return std::holds_alternative<double>(arg);
    case kFloats: return std::holds_alternative<std::vector<double>>(arg);
    case kBool: return std::holds_alternative<bool>(arg);
    case kName: return std::holds_alternative<Name>(arg);
    case kDType: return std::holds_alternative<DTypeArg>(arg);
    case kAny: return true;
  }
  return false;
}

Arg Parameter::Converted(Arg arg) const {
  const Dim* dim = std::get_if<Dim>(&arg);
  if (kind == Kind::kInts && dim) return Dims(std::max<size_t>(length, 1), *dim);
  if (kind == Kind::kFloat && dim && dim->is_const()) return static_cast<double>(dim->const_value());
  if (kind != Kind::kTensor) return arg;
  if (dim) return Number{*dim};
  if (const double* value = std::get_if<double>(&arg)) return Number{*value};
  if (const bool* value = std::get_if<bool>(&arg)) return Number{*value};
  return arg;
}

const std::vector<Parameter>* FindSchema(std::string_view op) {
  static const auto* const schemas = [] {
    auto* map = new std::unordered_map<std::string_view, std::vector<Parameter>>;
    for (const OpInfo& op : AllOps()) {
      if (op.parameters.data() == nullptr) continue;
      std::vector<Parameter>& parameters = (*map)[op.name];
      for (std::string_view rest = op.parameters; !rest.empty();) parameters.push_back(ParameterOf(TakeItem(rest)));
    }
    return map;
  }();
  const auto place = schemas->find(op);
  return place == schemas->end() ? nullptr : &place->second;
}

}  // namespace ingot::compiler
