// SPDX-License-Identifier: Apache-2.0
#include "client/native/log/place_partition.h"

#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/places/place_access.h"
#include "proto/place_pair.h"

namespace ingot::client {
namespace {

/// Tuples and the like are compared by what they hold.
bool MayMeet(PyObject* object) {
  return PlacePartition::HasIdentity(object) && !PyTuple_Check(object) && !PyFrozenSet_Check(object) &&
         !EffectTable::IsNative(object);
}

}  // namespace

bool PlacePartition::HasIdentity(PyObject* value) {
  if (value == nullptr || IsAtom(value) || PyCode_Check(value)) return false;
  if (PyType_Check(value) || PyModule_Check(value)) return !HasOwnName(value);
  if (!EffectTable::IsNative(value)) return true;
  PyObject* self = PyCFunction_Check(value) ? PyCFunction_GET_SELF(value) : nullptr;
  return self != nullptr && !PyModule_Check(self) && !PyType_Check(self);
}

PlacePartition::PlacePartition(const DependencyRecord& record) {
  for (const DependencyRow& row : record.rows()) {
    const auto pair = row.kind == proto::kSameObject ? proto::ParsePlacePair(row.where) : std::nullopt;
    if (pair) Join(pair->first, pair->second);
  }
}

std::optional<std::string_view> PlacePartition::AddRoot(PyObject* object, std::string_view name) {
  if (const auto known = Find(object)) return Named(*known) == Named(name) ? std::nullopt : known;
  places_.emplace(object, name);
  return std::nullopt;
}

std::optional<std::string_view> PlacePartition::Add(PyObject* object, std::string_view where) {
  if (object == nullptr || !MayMeet(object)) return std::nullopt;
  const size_t before = places_.size();
  if (const auto other = AddRoot(object, where)) return other;
  if (places_.size() == before) return std::nullopt;
  // An address must stay its own as long as others are compared with it.
  held_.push_back(PythonRef::Borrow(object));
  return std::nullopt;
}

int PlacePartition::Traverse(visitproc visit, void* arg) const {
  for (const PythonRef& object : held_) Py_VISIT(object.get());
  return 0;
}

/// Links what two places are named by, and nothing to itself: the links end.
void PlacePartition::Join(std::string_view one, std::string_view other) {
  one = Named(one);
  other = Named(other);
  if (one != other) same_.emplace(one, other);
}

std::string_view PlacePartition::Named(std::string_view where) const {
  for (;;) {
    const auto step = [&where](const PlacePartition& of) {
      const auto it = of.same_.find(where);
      if (it != of.same_.end()) where = it->second;
      return it != of.same_.end();
    };
    if (!step(*this) && (below_ == nullptr || !step(*below_))) return where;
  }
}

std::optional<std::string_view> PlacePartition::Find(PyObject* object) const {
  for (const PlacePartition* of = this; of != nullptr; of = of->below_) {
    const auto it = of->places_.find(object);
    if (it != of->places_.end()) return it->second;
  }
  return std::nullopt;
}

}  // namespace ingot::client
