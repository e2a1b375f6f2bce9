// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/native/reading.h"

namespace ingot::client {

/// A way from one of a call's object arguments to something inside it: a path that begins with `object:<i>`.
/// Runs no code of a program; needs the GIL.
class ObjectPath {
 public:
  /// kCorrupt for text that is no such path.
  static Result<ObjectPath> Parse(std::string_view path);

  /// What the path leads to (a new reference), or null without an error set when a step leads nowhere.
  PyObject* Follow(const std::vector<PyObject*>& objects) const;

 private:
  size_t object_ = 0;
  std::vector<Step> steps_;
};

}  // namespace ingot::client
