// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/matcher.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/user_pattern.h"

namespace ingot::compiler {

/// A user's pattern made ready for search: spelled as graphs are when patterns are applied, with the numbers found that
/// may be any.
class SearchedPattern {
 public:
  /// kInvalid where the pattern can be found nowhere.
  static Result<SearchedPattern> Of(const UserPattern& pattern);

  const std::string& name() const { return name_; }
  /// The operator of the node that is looked for first.
  const std::string& root_op() const { return trees_[0].pattern.ops[0]; }

  /// A place of the pattern in a graph.
  struct Place {
    std::vector<NodeId> nodes;  ///< Each once, in no order.
    std::vector<ValueId> inputs;  ///< By the pattern's inputs.
    std::vector<ValueId> outputs;  ///< By its outputs.
    std::vector<Number> numbers;  ///< Those that may be any.
    Dims replace_sizes;  ///< What the symbols of replace() are there.
  };
  /// Where the root is this node. Else `why` says what differs, and `nodes` how many nodes were found before it.
  std::optional<Place> At(const Graph& graph, NodeId root, std::string& why, size_t& nodes) const;

  const Graph& replace() const { return replace_; }
  /// Which of a place's numbers stands as this argument of this node of replace(), counted in its order; -1: none.
  int NumberOfReplace(size_t node, size_t arg) const;

 private:
  /// A node with what it is made of, as far as no earlier tree has it. All but the first hang on a value of those.
  struct Tree {
    Pattern pattern;
    std::string link;
  };
  using Numbers = std::map<std::pair<size_t, size_t>, int>;  ///< (node in the order, argument) -> number

  Status PlantTrees();
  Pattern TreeOf(size_t node, std::vector<bool>& covered) const;
  Pattern ArgumentOf(size_t node, size_t arg, std::vector<bool>& covered) const;
  Pattern ValueOf(ValueId id, std::vector<bool>& covered) const;
  std::string NameOf(ValueId id) const;
  std::string Check(const Graph& graph, const Place& place, const Match& match) const;

  std::string name_;
  Graph search_, replace_;
  std::vector<size_t> order_of_;  ///< Of each node of search_, its place in the order.
  Numbers numbers_, replace_numbers_;
  size_t number_count_ = 0;
  std::vector<Tree> trees_;
};

/// The argument with symbols replaced.
Arg Sized(Arg arg, std::span<const Dim> by);

}  // namespace ingot::compiler
