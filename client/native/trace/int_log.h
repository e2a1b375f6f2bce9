// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/graph_generated.h"

namespace ingot::client {

/// The integers that the operators of a recording were called with, in order.
struct IntLog {
  struct Entry {
    uint32_t step;
    uint16_t arg;
    uint16_t index;  ///< in a list
    int64_t value;
  };
  std::vector<Entry> ints;
  std::vector<const std::string*> steps;  ///< names of the operators, "aten::slice.Tensor"
};

/// What a run did with sizes, as a recording carries it (proto/graph.fbs).
struct SizeNotes {
  struct Guard {
    proto::SizeRelation relation;
    uint32_t left, right;
    std::string where;
  };
  std::vector<proto::SizeExpr> exprs;
  std::vector<Guard> guards;
  std::vector<proto::SizedInt> ints;
};

}  // namespace ingot::client
