// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <ranges>
#include <span>

namespace ingot::client {

/// The places of a set's table with the hashes that it keeps; -1 is that of a deleted member.
inline std::span<const setentry> PlacesOf(PyObject* set) {
  const auto* own = reinterpret_cast<PySetObject*>(set);
  return {own->table, static_cast<size_t>(own->mask) + 1};
}

/// The members of a set as they lie in its table, which is the order in which they are iterated
/// over; borrowed, null for free places. Valid until the set is changed.
inline auto TableOf(PyObject* set) {
  constexpr Py_hash_t kDeleted = -1;
  return std::views::transform(PlacesOf(set),
                               [](const setentry& entry) { return entry.hash == kDeleted ? nullptr : entry.key; });
}

}  // namespace ingot::client
