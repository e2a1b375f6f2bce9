// SPDX-License-Identifier: Apache-2.0
#include "client/archive/result_tree.h"

#include <fmt/format.h>

namespace ingot::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kResultDepthMax = 32;

class Builder {
 public:
  Builder(const std::vector<Json>& leaves, bool strict) : leaves_(leaves), strict_(strict) {}

  Result<Json> Build(const Json& node, int depth) {
    if (depth > kResultDepthMax) return Error(Code::kUnsupported, "nested too deep");
    if (node.at("type").is_null()) {
      if (next_ >= leaves_.size()) return Error(Code::kCorrupt, "a tree has more leaves than values");
      return leaves_[next_++];
    }
    const auto type = node.at("type").get<std::string>();
    Json children = Json::array();
    for (const Json& child : node.at("children_spec")) {
      TRY_ASSIGN(Json built, Build(child, depth + 1));
      children.push_back(std::move(built));
    }
    if (type == "builtins.list") return Json{{"t", "list"}, {"c", std::move(children)}};
    if (type == "builtins.dict") {
      const Json keys = Json::parse(node.at("context").get<std::string>());
      if (keys.is_array() && keys.size() == children.size()) {
        return Json{{"t", "dict"}, {"k", keys}, {"c", std::move(children)}};
      }
    }
    if (strict_ && type != "builtins.tuple") {
      return Error(Code::kUnsupported,
                   fmt::format("an argument of class {}, which a file cannot check; pass what it holds", type));
    }
    return Json{{"t", "tuple"}, {"c", std::move(children)}};
  }

  bool done() const { return next_ == leaves_.size(); }

 private:
  const std::vector<Json>& leaves_;
  const bool strict_;
  size_t next_ = 0;
};

}  // namespace

Result<Json> ResultTree(const std::string& spec, const std::vector<Json>& leaves, bool strict) {
  try {
    // [version, tree]
    const Json tree = Json::parse(spec);
    Builder builder(leaves, strict);
    TRY_ASSIGN(Json built, builder.Build(tree.at(1), 0));
    if (!builder.done()) return Error(Code::kCorrupt, "a tree has fewer leaves than values");
    return built;
  } catch (const Json::exception& e) {
    return Error(Code::kCorrupt, fmt::format("tree of values: {}", e.what()));
  }
}

}  // namespace ingot::client
