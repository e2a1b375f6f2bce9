// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "compiler/fusion/coords.h"
#include "compiler/fusion/lowered.h"

namespace ingot::compiler::fusion {

/// Nodes that become one kernel.
struct Group {
  struct Store {
    ValueId value;
    CoordsId at;
  };
  IterationSpace space;
  std::vector<NodeId> members;
  std::vector<Store> stores;
  std::vector<ValueId> loads;   ///< roots of what it reads, as far as grouping knows
};

/// Consumers first: every node joins the group that reads it at its own index, where no path
/// leaves the group and comes back; values needed elsewhere are stored. Cheap producers are
/// computed again where that moves fewer bytes.
std::vector<std::unique_ptr<Group>> FormGroups(const Lowered& lowered);

}  // namespace ingot::compiler::fusion
