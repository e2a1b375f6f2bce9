// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <utility>
#include <vector>

namespace ingot::client {

/// A way from one of a call's object arguments to something inside it: attributes and items.
/// Owns its keys; needs the GIL.
class ObjectPath {
 public:
  ObjectPath(size_t object, PyObject* steps);
  ObjectPath(ObjectPath&& other) noexcept = default;
  ~ObjectPath();

  /// What the path leads to (a new reference), or null without an error set when a step fails.
  PyObject* Follow(const std::vector<PyObject*>& objects) const;

 private:
  struct Step {
    bool attribute;
    PyObject* key;
  };
  size_t object_;
  std::vector<Step> steps_;
};

}  // namespace ingot::client
