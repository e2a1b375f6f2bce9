// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/log/dependency_record.h"
#include "client/native/places/place_access.h"

namespace ingot::client {

/// A way to something that each call finds anew: from one of its object arguments (`object:<i>`), or from what a
/// binding always starts at. Runs no code of a program; needs the GIL.
class ObjectPath {
 public:
  /// kCorrupt for text that is no path, kNotFound where nothing is at its root.
  static Result<ObjectPath> Parse(std::string_view path, const PathReader& reader);

  /// What the path leads to (a new reference), or null without an error set when a step leads nowhere.
  PyObject* Follow(const std::vector<PyObject*>& objects) const;
  /// For Python's collector of cycles.
  int Traverse(visitproc visit, void* arg) const;

 private:
  PythonRef root_;     ///< null: an object argument
  size_t object_ = 0;  ///< its number
  std::vector<Step> steps_;
};

}  // namespace ingot::client
