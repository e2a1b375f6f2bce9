// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <ranges>
#include <span>

namespace ingot::client {

/// The members of a set as they lie in its table, which is the order in which they are iterated
/// over; borrowed, null for free places. Valid until the set is changed.
inline auto TableOf(PyObject* set) {
  constexpr Py_hash_t kDeleted = -1;
  const auto* own = reinterpret_cast<PySetObject*>(set);
  return std::views::transform(std::span(own->table, static_cast<size_t>(own->mask) + 1),
                               [](const setentry& entry) { return entry.hash == kDeleted ? nullptr : entry.key; });
}

}  // namespace ingot::client
