// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <ranges>
#include <span>

namespace ingot::client {

/// The places of a set's table, in the order in which its members are iterated over; valid until the set is changed.
inline std::span<const setentry> PlacesOf(PyObject* set) {
  const auto* own = reinterpret_cast<PySetObject*>(set);
  return {own->table, static_cast<size_t>(own->mask) + 1};
}

/// What lies there, borrowed; null for free places and those of members that were removed.
inline PyObject* MemberAt(const setentry& place) {
  constexpr Py_hash_t kRemoved = -1;
  return place.hash == kRemoved ? nullptr : place.key;
}

/// The members as they lie in the table; null where none does.
inline auto TableOf(PyObject* set) { return std::views::transform(PlacesOf(set), MemberAt); }

}  // namespace ingot::client
