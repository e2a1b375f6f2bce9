// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/native/cpython/python_ref.h"
#include "client/native/log/dependency_record.h"

namespace ingot::client {

/// Which places lead to one object and which to two, as a record has it: places that it does not name as the same
/// have two, which native code may hold against each other and of which a run may write one. Needs the GIL.
class PlacePartition {
 public:
  /// Whether being the same object matters beyond what a record says of it. Of values nobody tells two apart
  /// (Observer::Identity), what has a name of its own is told by it, and what is made in C and bound to nothing is
  /// there once.
  static bool HasIdentity(PyObject* value);

  /// Lives no longer than the record.
  explicit PlacePartition(const DependencyRecord& record);
  /// Goes on from another, which stays what it is and lives longer.
  explicit PlacePartition(const PlacePartition* below) : below_(below) {}

  /// What paths begin with: a name that lives as long as this. Another root or place that leads to the object and
  /// should not, or nothing.
  std::optional<std::string_view> AddRoot(PyObject* object, std::string_view name);
  /// Another place that leads to the object and should not, or nothing. `where` lives as long as this.
  std::optional<std::string_view> Add(PyObject* object, std::string_view where);
  /// The one place that stands for all that lead to its object.
  std::string_view Named(std::string_view where) const;
  /// For Python's collector of cycles: each reference that this owns, once.
  int Traverse(visitproc visit, void* arg) const;

 private:
  void Join(std::string_view one, std::string_view other);
  std::optional<std::string_view> Find(PyObject* object) const;

  const PlacePartition* below_ = nullptr;
  boost::unordered_flat_map<PyObject*, std::string_view> places_;
  boost::unordered_flat_map<std::string_view, std::string_view> same_;
  std::vector<PythonRef> held_;
};

}  // namespace ingot::client
