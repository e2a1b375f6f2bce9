// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Starts a collective of torch.distributed ("_c10d_functional.all_reduce"). Others fill the
/// results, and may read the operands, until the wait: neither may be touched in between.
bool StartsCollective(std::string_view op);
/// "_c10d_functional.wait_tensor": its operand is the result of a collective, its result the same
/// memory, finished. Argument 1 lists the operands of that collective, which keeps their memory as
/// it is for so long: whoever orders, places or overwrites values sees a use.
bool WaitsForCollective(std::string_view op);
/// That list.
RefList OperandsInFlight(const Node& collective);
/// An operator that communicates, whether a graph may hold it or not.
bool IsCommunication(std::string_view op);

/// The process group of a collective: the slot its group argument names.
std::optional<uint32_t> GroupSlotOf(const Node& node);
/// Slots in use: one more than the largest.
uint32_t GroupCount(const Graph& graph);
/// The collective that a wait waits for, or null.
const Node* WaitedFor(const Graph& graph, const Node& wait);

/// Whether what communicates does so in an order that is the same on every rank and on memory that
/// nobody else touches: kUnsupported names the first node that does not. Checked by Verify.
/// - Each result of a collective is waited for, once or more often, and used in no other way.
/// - A wait waits for a collective of the graph and holds its operands.
/// - Each is marked opaque, and groups are named by slots.
struct CommunicationFault {
  NodeId node = kNoNode;
  std::string_view rule;
};
std::optional<CommunicationFault> FindCommunicationFault(const Graph& graph);

}  // namespace ingot::compiler
