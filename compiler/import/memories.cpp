// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/memories.h"
#include "compiler/ir/written_memories.h"

#include <algorithm>

#include <fmt/format.h>

namespace ingot::compiler {
namespace {

/// Sources of one storage that are compared pair by pair.
constexpr size_t kNeighboursMax = 1024;

Error WrittenTangled() {
  return Error(Code::kUnsupported, "written memory is shared by tensors that are not views of each other");
}

}  // namespace

Memories::Memories(const Recording& recording, Graph& graph)
    : recording_(recording), graph_(graph), cells_(recording.metas().size()) {}

bool Memories::IsSource(uint32_t id) const { return SourceOf(memories_[cells_[id].memory]).has_value(); }

std::optional<size_t> Memories::SourceOf(const Memory& memory) const {
  const auto at = std::find(sources_.begin(), sources_.end(), memory.root);
  if (at == sources_.end()) return std::nullopt;
  return static_cast<size_t>(at - sources_.begin());
}

uint32_t Memories::AddMemory(uint32_t root) {
  const uint32_t memory = static_cast<uint32_t>(memories_.size());
  memories_.push_back({root, cells_[root].value});
  by_storage_[recording_.meta(root).storage].push_back(memory);
  return memory;
}

Status Memories::DefineSource(uint32_t id, ValueId value, bool is_input) {
  if (IsDefined(id)) {
    return Error(Code::kCorrupt, fmt::format("recording: two sources are value {}", id));
  }
  sources_.push_back(id);
  const Meta& meta = recording_.meta(id);
  Cell& cell = cells_[id];
  cell.value = value;
  bool meets_another = false;
  const std::vector<uint32_t>& neighbours = by_storage_[meta.storage];
  if (neighbours.size() >= kNeighboursMax) tangled_storages_.insert(meta.storage);
  for (size_t i = 0; i < std::min(neighbours.size(), kNeighboursMax); ++i) {
    const uint32_t memory = neighbours[i];
    const uint32_t root = memories_[memory].root;
    const Meta& other = recording_.meta(root);
    // Slices of one flat buffer that do not meet are memories of their own.
    if (meta.end_byte <= other.first_byte || other.end_byte <= meta.first_byte) continue;
    const bool stays_shared = !is_input && !memories_[memory].is_input;
    if (stays_shared && meta.type == other.type && meta.offset == other.offset) {
      cell.memory = memory;
      cell.view = TakenView{root, {}, {}, 0};
    } else {
      memories_[memory].tangled = true;
      meets_another = true;
    }
  }
  if (cell.view) return {};
  cell.memory = AddMemory(id);
  memories_[cell.memory].tangled = meets_another;
  memories_[cell.memory].is_input = is_input;
  return {};
}

void Memories::DefineFresh(uint32_t id, ValueId value) {
  const uint32_t storage = recording_.meta(id).storage;
  const bool known = by_storage_.count(storage) != 0;
  Cell& cell = cells_[id];
  cell.value = value;
  cell.memory = AddMemory(id);
  if (known) tangled_storages_.insert(storage);
}

void Memories::DefineView(uint32_t id, ValueId value, TakenView view) {
  Cell& cell = cells_[id];
  cell.value = value;
  cell.memory = cells_[view.parent].memory;
  cell.version = memories_[cell.memory].version;
  cell.view = std::move(view);
  const Meta& meta = recording_.meta(id);
  const Meta& root = recording_.meta(memories_[cell.memory].root);
  const bool empty = meta.first_byte == meta.end_byte;
  if (!empty && (meta.first_byte < root.first_byte || meta.end_byte > root.end_byte)) {
    tangled_storages_.insert(meta.storage);
  }
}

Result<ValueId> Memories::Use(uint32_t id) {
  // Views of views are walked by hand: a recording decides how deep they go.
  std::vector<uint32_t> stale;
  uint32_t at = id;
  while (cells_[at].view && cells_[at].version != memories_[cells_[at].memory].version) {
    stale.push_back(at);
    at = cells_[at].view->parent;
  }
  if (cells_[at].value == kNoValue) {
    return Error(Code::kCorrupt, fmt::format("recording: value {} is used undefined", id));
  }
  for (size_t i = stale.size(); i-- > 0;) {
    Cell& cell = cells_[stale[i]];
    const ValueId parent = cells_[cell.view->parent].value;
    cell.value = cell.view->is_same() ? parent : Replay(graph_, *cell.view, parent, recording_.meta(stale[i]).type);
    cell.version = memories_[cell.memory].version;
  }
  return cells_[id].value;
}

/// Undoing views one by one, a write to one of the places of an element would not reach the others.
Status Memories::NamesElementsOnce(uint32_t id) const {
  for (uint32_t at = id;; at = cells_[at].view->parent) {
    if (HasInternalOverlap(recording_.meta(at).type)) {
      return Error(Code::kUnsupported, "written tensor is, or is a view of, one that names an element of memory twice");
    }
    if (!cells_[at].view) return {};
  }
}

Status Memories::Write(uint32_t id, ValueId value) {
  const uint32_t memory = cells_[id].memory;
  if (IsTangled(id)) return WrittenTangled();
  TRY(NamesElementsOnce(id));
  std::vector<std::pair<uint32_t, ValueId>> updated = {{id, value}};
  while (cells_[updated.back().first].view) {
    const auto [at, now] = updated.back();
    const TakenView& view = *cells_[at].view;
    const uint32_t parent = view.parent;
    if (view.is_same()) {
      updated.emplace_back(parent, now);
      continue;
    }
    TRY_ASSIGN(const ValueId before, Use(parent));
    TRY_ASSIGN(const ValueId after, Invert(graph_, view, recording_.meta(parent), recording_.meta(at), before, now));
    updated.emplace_back(parent, after);
  }
  const uint64_t version = ++memories_[memory].version;
  for (const auto& [at, now] : updated) {
    // A value of another layout would give views of it other strides than were recorded; such a
    // tensor stays stale and is taken from the root again.
    if (cells_[at].view && graph_.type(now) != recording_.meta(at).type) continue;
    cells_[at].value = now;
    cells_[at].version = version;
  }
  return {};
}

bool Memories::IsTangled(uint32_t id) const {
  return memories_[cells_[id].memory].tangled || tangled_storages_.count(recording_.meta(id).storage) != 0;
}

int64_t Memories::InputOf(uint32_t root) const {
  const std::optional<size_t> source = SourceOf(memories_[cells_[root].memory]);
  return source && graph_.inputs[*source].kind != InputKind::kConstant ? static_cast<int64_t>(*source) : -1;
}

std::vector<uint32_t> Memories::CallersRoots() const {
  std::vector<uint32_t> roots;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!cells_[sources_[i]].view && graph_.inputs[i].kind != InputKind::kConstant) roots.push_back(sources_[i]);
  }
  return roots;
}

Status Memories::Take(uint32_t root) {
  if (IsTangled(root)) return WrittenTangled();
  TRY(NamesElementsOnce(root));
  TRY_ASSIGN(const ValueId value, Use(root));
  Node node{std::string(kMemoryOp), {Ref{value}}};
  node.effects = kOpaque;
  const NodeId id = graph_.AddNode(std::move(node), {recording_.meta(root).type});
  Leave(root, graph_.node(id).results[0]);
  return {};
}

void Memories::Leave(uint32_t root, ValueId value) {
  cells_[root].value = value;
  cells_[root].version = ++memories_[cells_[root].memory].version;
}

Result<std::vector<ValueId>> Memories::UseResults(std::span<const uint32_t> ids) {
  std::unordered_map<uint32_t, std::unordered_set<uint32_t>> sharing;  // by memory
  for (const uint32_t id : ids) {
    if (IsDefined(id)) sharing[cells_[id].memory].insert(id);
  }
  std::unordered_map<uint32_t, size_t> first;           // result in each memory
  std::unordered_map<uint32_t, size_t> first_by_storage;  // among memories that the call has made
  std::unordered_set<uint32_t> constants;                 // storages of results among constants
  std::vector<ValueId> values;
  for (const uint32_t id : ids) {
    const auto tensors = IsDefined(id) ? sharing.find(cells_[id].memory) : sharing.end();
    if (tensors == sharing.end()) {
      return Error(Code::kCorrupt, fmt::format("recording: output {} is used undefined", id));
    }
    const auto [memory, known] = *tensors;
    const size_t source = SourceOf(memories_[memory]).value_or(graph_.inputs.size());
    const bool is_constant = source < graph_.inputs.size() && graph_.inputs[source].kind == InputKind::kConstant;
    const bool is_callers = source < graph_.inputs.size() && !is_constant;
    // A caller gets a copy of a constant, which is part of the code; several tensors of its memory
    // are views of one copy.
    if (is_constant && known.size() > 1 && !first.contains(memory)) TRY(CopyConstant(memory));
    const auto [at, is_first] = first.emplace(memory, values.size());
    if (is_first && memories_[memory].version > 0 && (is_callers || known.size() > 1)) TRY(Settle(memory));
    TRY_ASSIGN(ValueId value, Use(id));
    if (memories_[memory].version > 0 && graph_.type(value).strides != recording_.meta(id).type.strides) {
      TRY(Settle(memory));
      TRY_ASSIGN(value, Use(id));
    }
    const bool itself = graph_.InputIndex(value) >= 0 || (!is_first && ids[at->second] == id);
    if (is_callers && !itself) value = Shares(value, static_cast<int64_t>(source));
    if (!is_callers && !is_first && !itself) value = Shares(value, -1 - static_cast<int64_t>(at->second));
    if (!is_callers && is_first) {
      // A view that cannot be taken again is a memory of its own here, and was none when it was recorded.
      const auto [other, is_alone] = first_by_storage.emplace(recording_.meta(id).storage, values.size());
      if (is_constant) constants.insert(recording_.meta(id).storage);
      if (!is_alone && constants.contains(recording_.meta(id).storage)) {
        return Error(Code::kUnsupported, "results share a constant by a view that native code takes as a copy");
      }
      if (is_constant) {
        // Each call gets a copy.
      } else if (const std::optional<size_t> callers = CallersAround(id)) {
        value = Shares(value, static_cast<int64_t>(*callers));
      } else if (!is_alone) {
        value = Shares(value, -1 - static_cast<int64_t>(other->second));
      }
    }
    values.push_back(value);
  }
  return values;
}

// The input or weight whose recorded memory a tensor meets.
std::optional<size_t> Memories::CallersAround(uint32_t id) const {
  const Meta& meta = recording_.meta(id);
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Meta& other = recording_.meta(sources_[i]);
    const bool meets =
        meta.storage == other.storage && meta.first_byte < other.end_byte && other.first_byte < meta.end_byte;
    if (meets && graph_.inputs[i].kind != InputKind::kConstant) return i;
  }
  return std::nullopt;
}

// From now on the memory is a copy of itself, made by the call.
Status Memories::CopyConstant(uint32_t memory) {
  const uint32_t root = memories_[memory].root;
  TRY_ASSIGN(const ValueId value, Use(root));
  const NodeId copy = graph_.AddNode({"aten.clone", {Ref{value}}}, {recording_.meta(root).type});
  cells_[root].value = graph_.node(copy).results[0];
  cells_[root].version = ++memories_[memory].version;
  return {};
}

ValueId Memories::Shares(ValueId value, int64_t with) {
  const NodeId id = graph_.AddNode({"ingot.shares", {Ref{value}, Dim(with)}}, {graph_.type(value)});
  return graph_.node(id).results[0];
}

// Every tensor of the memory takes its view from the root again.
Status Memories::Settle(uint32_t memory) {
  const auto [root, made] = std::pair(memories_[memory].root, memories_[memory].made);
  Cell& cell = cells_[root];
  const Type& type = recording_.meta(root).type;
  if (graph_.type(cell.value) != type) {
    // Results must lie as they do in eager's memory.
    const NodeId copy = graph_.AddNode({"aten.copy", {Ref{made}, Ref{cell.value}}}, {type});
    cell.value = graph_.node(copy).results[0];
  }
  cell.version = ++memories_[memory].version;
  return {};
}

void Memories::AddFinalWrites() {
  std::vector<compiler::Write> writes;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Cell& cell = cells_[sources_[i]];
    if (cell.view || graph_.inputs[i].kind == InputKind::kConstant) continue;
    if (cell.value != graph_.inputs[i].value) {
      writes.push_back({graph_.inputs[i].value, cell.value});
    }
  }
  graph_.SetWrites(std::move(writes));
}

}  // namespace ingot::compiler
