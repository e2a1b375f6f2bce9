// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/use_lists.h"

namespace ingot::compiler {

void UseLists::Set(uint32_t user, std::span<const uint32_t> operands) {
  Operands& links = OperandsOf(user);
  for (uint32_t i = 0; i < links.count; ++i) Remove(links.first + i);
  // A user whose operands become more leaves its old links unused: passes rarely do that.
  if (operands.size() > links.count) {
    links.first = static_cast<uint32_t>(links_.size());
    links_.resize(links_.size() + operands.size());
  }
  links.count = static_cast<uint32_t>(operands.size());
  for (uint32_t i = 0; i < links.count; ++i) {
    links_[links.first + i].use = {user, i};
    Insert(links.first + i, operands[i]);
  }
}

void UseLists::Move(uint32_t from, uint32_t to) {
  uint32_t last = ~0u;
  for (uint32_t at = values_[from].first; at != ~0u; at = links_[at].next) {
    links_[at].value = to;
    last = at;
  }
  if (last == ~0u) return;
  List& list = values_[to];
  links_[last].next = list.first;
  if (list.first != ~0u) links_[list.first].previous = last;
  list.first = values_[from].first;
  list.count += values_[from].count;
  values_[from] = {};
}

uint32_t UseLists::at(const Use& use) const {
  const Operands* links = use.user == Use::kOutputs  ? &outputs_
                          : use.user == Use::kWrites ? &writes_
                          : use.user < nodes_.size() ? &nodes_[use.user]
                                                     : nullptr;
  return links && use.operand < links->count ? links_[links->first + use.operand].value : ~0u;
}

UseLists::Operands& UseLists::OperandsOf(uint32_t user) {
  if (user == Use::kOutputs) return outputs_;
  if (user == Use::kWrites) return writes_;
  if (user >= nodes_.size()) nodes_.resize(user + 1);
  return nodes_[user];
}

void UseLists::Insert(uint32_t link, uint32_t value) {
  // What names no value is for the verifier to find.
  if (value >= values_.size()) return;
  List& list = values_[value];
  links_[link].value = value;
  links_[link].next = list.first;
  if (list.first != ~0u) links_[list.first].previous = link;
  list.first = link;
  ++list.count;
}

void UseLists::Remove(uint32_t link) {
  Link& old = links_[link];
  if (old.value == ~0u) return;
  List& list = values_[old.value];
  (old.previous == ~0u ? list.first : links_[old.previous].next) = old.next;
  if (old.next != ~0u) links_[old.next].previous = old.previous;
  --list.count;
  old = {};
}

}  // namespace ingot::compiler
