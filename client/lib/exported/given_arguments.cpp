// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/given_arguments.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/lib/run/guard_table.h"

namespace ingot::client {
namespace {

using Kind = ArgumentNode::Kind;

class Reader {
 public:
  explicit Reader(std::vector<at::Tensor>& tensors) : tensors_(tensors) {}

  Result<ArgumentNode> Read(const c10::IValue& value, const std::string& path) {
    ArgumentNode node;
    if (value.isTensor()) return ReadTensor(value.toTensor(), path);
    if (value.isNone()) return node;
    if (value.isBool()) {
      node.kind = Kind::kBool;
      node.integer = value.toBool() ? 1 : 0;
    } else if (value.isInt()) {
      node.kind = Kind::kInt;
      node.integer = value.toInt();
    } else if (value.isDouble()) {
      node.kind = Kind::kFloat;
      node.number = value.toDouble();
    } else if (value.isString()) {
      node.kind = Kind::kText;
      node.text = value.toStringRef();
    } else if (value.isDevice()) {
      node.kind = Kind::kDevice;
      node.text = value.toDevice().str();
    } else if (value.isTuple()) {
      node.kind = Kind::kTuple;
      TRY(ReadAll(value.toTupleRef().elements(), path, node));
    } else if (value.isList()) {
      node.kind = Kind::kList;
      std::vector<c10::IValue> children;
      for (const auto& child : value.toList()) children.push_back(child);
      TRY(ReadAll(children, path, node));
    } else if (value.isGenericDict()) {
      node.kind = Kind::kDict;
      TRY(ReadDict(value.toGenericDict(), path, node));
    } else {
      return Error(Code::kUnsupported,
                   fmt::format("'{}' is a {}, which is no argument of an exported file", path, value.tagKind()));
    }
    return node;
  }

 private:
  Result<ArgumentNode> ReadTensor(const at::Tensor& tensor, const std::string& path) {
    if (!tensor.defined()) return Error(Code::kInvalid, fmt::format("'{}' is an undefined tensor", path));
    ArgumentNode node;
    node.kind = Kind::kTensor;
    const auto dtype = ElementTypeOf(tensor.scalar_type());
    if (!dtype) {
      return Error(Code::kUnsupported,
                   fmt::format("'{}' has the element type {}", path, at::toString(tensor.scalar_type())));
    }
    node.dtype = *dtype;
    node.rank = static_cast<uint32_t>(tensor.dim());
    const auto same = [&tensor](const at::Tensor& seen) { return seen.is_same(tensor); };
    node.tensor = static_cast<uint32_t>(std::ranges::find_if(tensors_, same) - tensors_.begin());
    if (node.tensor == tensors_.size()) tensors_.push_back(tensor);
    return node;
  }

  template <typename Values>
  Status ReadAll(const Values& values, const std::string& path, ArgumentNode& node) {
    for (const c10::IValue& child : values) {
      TRY_ASSIGN(ArgumentNode made, Read(child, fmt::format("{}[{}]", path, node.children.size())));
      node.children.push_back(std::move(made));
    }
    return {};
  }

  Status ReadDict(const c10::impl::GenericDict& dict, const std::string& path, ArgumentNode& node) {
    for (const auto& entry : dict) {
      if (!entry.key().isString() && !entry.key().isInt()) {
        return Error(Code::kUnsupported, fmt::format("'{}' has keys that are neither strings nor integers", path));
      }
      const nlohmann::json key =
          entry.key().isString() ? nlohmann::json(entry.key().toStringRef()) : nlohmann::json(entry.key().toInt());
      node.keys.push_back(key.dump());
      TRY_ASSIGN(ArgumentNode made, Read(entry.value(), fmt::format("{}[{}]", path, node.keys.back())));
      node.children.push_back(std::move(made));
    }
    return {};
  }

  std::vector<at::Tensor>& tensors_;
};

}  // namespace

Result<GivenArguments> GivenArguments::Of(std::span<const c10::IValue> positional,
                                          std::span<const std::pair<std::string, c10::IValue>> keywords) {
  GivenArguments given;
  Reader reader(given.tensors);
  for (const c10::IValue& value : positional) {
    TRY_ASSIGN(ArgumentNode node, reader.Read(value, fmt::format("args[{}]", given.signature.positional.size())));
    given.signature.positional.push_back(std::move(node));
  }
  for (const auto& [name, value] : keywords) {
    TRY_ASSIGN(ArgumentNode node, reader.Read(value, name));
    given.signature.keywords.emplace_back(name, std::move(node));
  }
  given.signature.tensor_count = static_cast<uint32_t>(given.tensors.size());
  return given;
}

}  // namespace ingot::client
