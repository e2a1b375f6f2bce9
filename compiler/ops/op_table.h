// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <unordered_map>
#include <utility>

namespace ingot::compiler {

/// What ops.def says of operators by one facet, by name. Made so, FACET being the macro that ops.def uses:
///
///   static const OpTable<Rule> rules = [] {
///     OpTable<Rule> table;
///   #define FACET(rule) , rule
///   #include "compiler/ops/ops.def"
///     return table;
///   }();
template <typename T>
class OpTable : public std::unordered_map<std::string_view, T> {
 public:
  /// A line without the facet.
  void Add(std::string_view) {}
  void Add(std::string_view op, T value) { this->emplace(op, std::move(value)); }

  /// Null where the operator has no such facet.
  const T* Of(std::string_view op) const {
    const auto found = this->find(op);
    return found == this->end() ? nullptr : &found->second;
  }
};

}  // namespace ingot::compiler
