// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "compiler/import/recording.h"
#include "compiler/import/view.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Which graph value each recorded tensor has at the current step.
///
/// A memory is a root tensor and the views of it. A write through any of them gives the root a
/// value made by undoing the views between; every other tensor of that memory is then stale and
/// takes its view again when it is next used. So values are never changed, only replaced.
class Memories {
 public:
  Memories(const Recording& recording, Graph& graph);

  bool IsDefined(uint32_t id) const { return cells_[id].value != kNoValue; }
  /// The tensor is a source or a view of one.
  bool IsSource(uint32_t id) const;
  /// Binds a source; all of them before anything else.
  /// Weights that share memory do so in every process (the entry key says it); an input of the call
  /// shares memory in this call only, so a write to what it shares cannot be followed.
  Status DefineSource(uint32_t id, ValueId value, bool is_input);
  /// Binds a tensor with memory of its own, as far as the recording knows.
  void DefineFresh(uint32_t id, ValueId value);
  void DefineView(uint32_t id, ValueId value, TakenView view);

  /// The value of a defined tensor, which may add nodes.
  Result<ValueId> Use(uint32_t id);
  Status Write(uint32_t id, ValueId value);

  /// The first tensor of the memory that a defined tensor lies in.
  uint32_t RootOf(uint32_t id) const { return memories_[cells_[id].memory].root; }
  /// Which input or weight the memory of a root is; -1: one of the call's own, or a constant.
  int64_t InputOf(uint32_t root) const;
  /// The roots that are inputs and weights.
  std::vector<uint32_t> CallersRoots() const;
  /// Puts the memory of a root where an operator may write to it; all tensors of the memory lie there from now on.
  Status Take(uint32_t root);
  /// The memory as an operator has left it. Nothing is said of memories that are tangled: they cannot be written.
  void Leave(uint32_t root, ValueId value);
  bool IsTangled(uint32_t id) const;
  /// The values of the results, after all steps. A caller can tell which results share memory with
  /// which, and with arguments: such a result says so (ingot.shares), and where that memory was
  /// written it is a view of the last value.
  Result<std::vector<ValueId>> UseResults(std::span<const uint32_t> ids);
  /// Adds a Write to the graph for each source whose memory changed.
  void AddFinalWrites();

 private:
  struct Cell {
    ValueId value = kNoValue;
    uint64_t version = 0;
    uint32_t memory = 0;
    std::optional<TakenView> view;
  };
  struct Memory {
    uint32_t root = 0;
    ValueId made = kNoValue;  ///< of the root, before any write
    uint64_t version = 0;
    /// Some alias is not a known view of the root: a write could not be followed.
    bool tangled = false;
    bool is_input = false;
  };

  Status NamesElementsOnce(uint32_t id) const;
  uint32_t AddMemory(uint32_t root);
  /// The position of the memory's root among the sources.
  std::optional<size_t> CallersAround(uint32_t id) const;
  std::optional<size_t> SourceOf(const Memory& memory) const;
  Status Settle(uint32_t memory);
  Status CopyConstant(uint32_t memory);
  ValueId Shares(ValueId value, int64_t with);

  const Recording& recording_;
  Graph& graph_;
  std::vector<Cell> cells_;
  std::vector<Memory> memories_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> by_storage_;
  /// As Memory::tangled, for all memories of the storage.
  std::unordered_set<uint32_t> tangled_storages_;
  std::vector<uint32_t> sources_;
};

}  // namespace ingot::compiler
