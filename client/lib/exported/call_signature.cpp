// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/call_signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/lib/exported/torch_names.h"

namespace ingot::client {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ArgumentNode::Kind;

constexpr std::array<std::string_view, 13> kKinds = {"tensor", "none",  "bool", "int",  "float", "text",     "dtype",
                                                     "device", "tuple", "list", "dict", "named", "dataclass"};
/// Nesting of arguments that a call site takes (arguments.cpp).
constexpr int kNodeDepthMax = 33;

Error CorruptSignature(const std::string& what) { return Error(Code::kCorrupt, "argument structure: " + what); }

std::string HexOf(double number) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%a", number);
  return text.data();
}

Result<ArgumentNode> ReadNode(const Json& spec, int depth);

Status ReadChildren(const Json& spec, ArgumentNode& node, int depth) {
  for (const Json& child : spec.at("c")) {
    TRY_ASSIGN(ArgumentNode made, ReadNode(child, depth + 1));
    node.children.push_back(std::move(made));
  }
  if (node.kind == Kind::kDict || node.kind == Kind::kDataclass) {
    for (const Json& key : spec.at("k"))
      node.keys.push_back(node.kind == Kind::kDict ? key.dump() : key.get<std::string>());
    if (node.keys.size() != node.children.size())
      return CorruptSignature("a container has another number of keys than of values");
  }
  if (node.kind >= Kind::kNamed) node.text = spec.at("m").get<std::string>() + ":" + spec.at("q").get<std::string>();
  return {};
}

Result<ArgumentNode> ReadNode(const Json& spec, int depth) {
  if (depth > kNodeDepthMax) return CorruptSignature("nested too deep");
  ArgumentNode node;
  const auto kind = std::ranges::find(kKinds, spec.at("t").get<std::string>());
  if (kind == kKinds.end()) return CorruptSignature("unknown kind " + spec.at("t").dump());
  node.kind = static_cast<Kind>(kind - kKinds.begin());
  switch (node.kind) {
    case Kind::kTensor: {
      const auto dtype = DTypeOfTorchName(spec.at("dtype").get<std::string>());
      if (!dtype) return CorruptSignature("unknown element type " + spec.at("dtype").dump());
      node.dtype = *dtype;
      node.rank = spec.at("rank").get<uint32_t>();
      node.tensor = spec.at("i").get<uint32_t>();
      break;
    }
    case Kind::kNone: break;
    case Kind::kBool: node.integer = spec.at("v").get<bool>() ? 1 : 0; break;
    case Kind::kInt: node.integer = spec.at("v").get<int64_t>(); break;
    case Kind::kFloat: {
      const auto text = spec.at("v").get<std::string>();
      char* end = nullptr;
      node.number = std::strtod(text.c_str(), &end);
      if (text.empty() || *end != '\0') return CorruptSignature("'" + text + "' is no number");
      break;
    }
    case Kind::kText:
    case Kind::kDType:
    case Kind::kDevice: node.text = spec.at("v").get<std::string>(); break;
    default: TRY(ReadChildren(spec, node, depth));
  }
  return node;
}

Json NodeJson(const ArgumentNode& node) {
  Json spec = {{"t", kKinds[static_cast<size_t>(node.kind)]}};
  switch (node.kind) {
    case Kind::kTensor:
      spec["i"] = node.tensor;
      spec["dtype"] = TorchNameOf(node.dtype);
      spec["rank"] = node.rank;
      return spec;
    case Kind::kNone: return spec;
    case Kind::kBool: spec["v"] = node.integer != 0; return spec;
    case Kind::kInt: spec["v"] = node.integer; return spec;
    case Kind::kFloat: spec["v"] = HexOf(node.number); return spec;
    case Kind::kText:
    case Kind::kDType:
    case Kind::kDevice: spec["v"] = node.text; return spec;
    default: break;
  }
  if (node.kind >= Kind::kNamed) {
    spec["m"] = node.text.substr(0, node.text.find(':'));
    spec["q"] = node.text.substr(node.text.find(':') + 1);
  }
  if (!node.keys.empty() || node.kind == Kind::kDict || node.kind == Kind::kDataclass) {
    Json& keys = spec["k"] = Json::array();
    for (const std::string& key : node.keys) keys.push_back(node.kind == Kind::kDict ? Json::parse(key) : Json(key));
  }
  Json& children = spec["c"] = Json::array();
  for (const ArgumentNode& child : node.children) children.push_back(NodeJson(child));
  return spec;
}

std::string TextOf(const ArgumentNode& node);

std::string TextOfAll(const ArgumentNode& node) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const char* const join = node.kind == Kind::kDict ? ": " : "=";
    parts.push_back((node.keys.empty() ? "" : node.keys[i] + join) + TextOf(node.children[i]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string TextOf(const ArgumentNode& node) {
  switch (node.kind) {
    case Kind::kTensor: return fmt::format("{}[{} dims]", TorchNameOf(node.dtype), node.rank);
    case Kind::kNone: return "None";
    case Kind::kBool: return node.integer != 0 ? "True" : "False";
    case Kind::kInt: return std::to_string(node.integer);
    case Kind::kFloat: {
      const std::string text = fmt::format("{}", node.number);
      return text.find_first_not_of("-0123456789") == text.npos ? text + ".0" : text;
    }
    case Kind::kText: return "'" + node.text + "'";
    case Kind::kDType:
    case Kind::kDevice: return node.text;
    case Kind::kTuple: return "(" + TextOfAll(node) + (node.children.size() == 1 ? ",)" : ")");
    case Kind::kList: return "[" + TextOfAll(node) + "]";
    case Kind::kDict: return "{" + TextOfAll(node) + "}";
    case Kind::kNamed:
    case Kind::kDataclass: return node.text.substr(node.text.find(':') + 1) + "(" + TextOfAll(node) + ")";
  }
  return "?";
}

/// Holds one call against a signature, argument by argument.
class Matcher {
 public:
  explicit Matcher(uint32_t tensor_count) : numbers_(tensor_count) {}

  Status Take(const ArgumentNode& wanted, const ArgumentNode& given, const std::string& path) {
    if (wanted.kind == Kind::kTensor && given.kind == Kind::kTensor) return TakeTensor(wanted, given, path);
    if (!IsSame(wanted, given)) return Differ(wanted, given, path);
    for (size_t i = 0; i < wanted.children.size(); ++i) {
      TRY(Take(wanted.children[i], given.children[i], PathOf(wanted, i, path)));
    }
    return {};
  }

  std::vector<uint32_t> Numbers() const {
    std::vector<uint32_t> out;
    for (const std::optional<uint32_t>& number : numbers_) out.push_back(number.value_or(0));
    return out;
  }

 private:
  static Error Differ(const ArgumentNode& wanted, const ArgumentNode& given, const std::string& path) {
    return Error(Code::kInvalid,
                 fmt::format("'{}' is {}, this was compiled for {}", path, TextOf(given), TextOf(wanted)));
  }

  static std::string PathOf(const ArgumentNode& node, size_t i, const std::string& path) {
    if (node.kind == Kind::kDataclass) return path + "." + node.keys[i];
    return fmt::format("{}[{}]", path, node.kind == Kind::kDict ? node.keys[i] : std::to_string(i));
  }

  /// Without the children, as long as there are as many.
  static bool IsSame(const ArgumentNode& wanted, const ArgumentNode& given) {
    if (wanted.kind != given.kind || wanted.children.size() != given.children.size() || wanted.keys != given.keys)
      return false;
    if (wanted.kind == Kind::kTensor) return true;
    return wanted.integer == given.integer && wanted.text == given.text &&
           std::bit_cast<uint64_t>(wanted.number) == std::bit_cast<uint64_t>(given.number);
  }

  Status TakeTensor(const ArgumentNode& wanted, const ArgumentNode& given, const std::string& path) {
    if (wanted.dtype != given.dtype || wanted.rank != given.rank) return Differ(wanted, given, path);
    std::optional<uint32_t>& number = numbers_[wanted.tensor];
    if (number && *number != given.tensor) {
      return Error(Code::kInvalid, fmt::format("'{}' is a tensor of its own, this was compiled for "
                                               "one that is passed before as well",
                                               path));
    }
    if (!number && std::ranges::find(numbers_, std::optional(given.tensor)) != numbers_.end()) {
      return Error(Code::kInvalid,
                   fmt::format("'{}' is passed before as well, this was compiled for a tensor of its own", path));
    }
    number = given.tensor;
    return {};
  }

  std::vector<std::optional<uint32_t>> numbers_;
};

void Collect(const ArgumentNode& node, std::vector<const ArgumentNode*>& tensors) {
  if (node.kind == Kind::kTensor) tensors[node.tensor] = &node;
  for (const ArgumentNode& child : node.children) Collect(child, tensors);
}

void Count(const ArgumentNode& node, std::vector<bool>& seen) {
  if (node.kind == Kind::kTensor) {
    if (node.tensor >= seen.size()) seen.resize(std::min<size_t>(node.tensor, 1 << 20) + 1);
    if (node.tensor < seen.size()) seen[node.tensor] = true;
  }
  for (const ArgumentNode& child : node.children) Count(child, seen);
}

}  // namespace

Result<CallSignature> CallSignature::Parse(const std::string& text) {
  CallSignature made;
  try {
    const Json spec = Json::parse(text);
    for (const Json& node : spec.at("args")) {
      TRY_ASSIGN(ArgumentNode argument, ReadNode(node, 0));
      made.positional.push_back(std::move(argument));
    }
    made.names = spec.at("names").get<std::vector<std::string>>();
    for (const auto& [name, node] : spec.at("kwargs").items()) {
      TRY_ASSIGN(ArgumentNode argument, ReadNode(node, 0));
      made.keywords.emplace_back(name, std::move(argument));
    }
  } catch (const Json::exception& e) {
    return CorruptSignature(e.what());
  }
  std::vector<bool> seen;
  for (const ArgumentNode& argument : made.positional) Count(argument, seen);
  for (const auto& [name, argument] : made.keywords) Count(argument, seen);
  if (std::ranges::find(seen, false) != seen.end()) return CorruptSignature("the tensors are not numbered from 0 on");
  made.tensor_count = static_cast<uint32_t>(seen.size());
  return made;
}

std::string CallSignature::ToJson() const {
  Json spec = {{"args", Json::array()}, {"names", names}, {"kwargs", Json::object()}};
  for (const ArgumentNode& argument : positional) spec["args"].push_back(NodeJson(argument));
  for (const auto& [name, argument] : keywords) spec["kwargs"][name] = NodeJson(argument);
  return spec.dump();
}

std::string CallSignature::ToText() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < positional.size(); ++i) {
    parts.push_back((i < names.size() ? names[i] + ": " : "") + TextOf(positional[i]));
  }
  for (const auto& [name, argument] : keywords) parts.push_back(name + "=" + TextOf(argument));
  return fmt::format("({})", fmt::join(parts, ", "));
}

Result<std::vector<uint32_t>> CallSignature::Match(const CallSignature& given) const {
  const auto find = [](const auto& list, const std::string& name) {
    return std::ranges::find_if(list, [&name](const auto& keyword) { return keyword.first == name; });
  };
  // Positional arguments have names, by which they may be passed.
  std::vector<const ArgumentNode*> values;
  for (const ArgumentNode& argument : given.positional) values.push_back(&argument);
  size_t named = 0;
  for (size_t i = values.size(); i < positional.size() && i < names.size(); ++i) {
    const auto found = find(given.keywords, names[i]);
    if (found == given.keywords.end() || find(keywords, names[i]) != keywords.end()) break;
    values.push_back(&found->second);
    ++named;
  }
  if (values.size() != positional.size()) {
    return Error(Code::kInvalid, fmt::format("{} positional arguments, this was compiled for {}: {}",
                                             given.positional.size(), positional.size(), ToText()));
  }
  const auto first_named = names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), positional.size() - named));
  const auto last_named = names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), positional.size()));
  for (const auto& [name, argument] : given.keywords) {
    if (find(keywords, name) == keywords.end() && std::find(first_named, last_named, name) == last_named) {
      return Error(Code::kInvalid, fmt::format("'{}' is passed by name, this was compiled for {}", name, ToText()));
    }
  }
  Matcher matcher(tensor_count);
  for (size_t i = 0; i < positional.size(); ++i) {
    TRY(matcher.Take(positional[i], *values[i], i < names.size() ? names[i] : fmt::format("args[{}]", i)));
  }
  for (const auto& [name, argument] : keywords) {
    const auto found = find(given.keywords, name);
    if (found == given.keywords.end()) {
      return Error(Code::kInvalid, fmt::format("'{}' is missing, this was compiled for {}", name, ToText()));
    }
    TRY(matcher.Take(argument, found->second, name));
  }
  return matcher.Numbers();
}

bool CallSignature::TakesTensors(const TensorKinds& given) const {
  if (given.size() != tensor_count) return false;
  std::vector<const ArgumentNode*> wanted(tensor_count);
  for (const ArgumentNode& argument : positional) Collect(argument, wanted);
  for (const auto& [name, argument] : keywords) Collect(argument, wanted);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].first != wanted[i]->dtype || given[i].second != wanted[i]->rank) return false;
  }
  return true;
}

}  // namespace ingot::client
