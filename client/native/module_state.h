// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "base/digest.h"

namespace ingot::client {

/// One named part of a module's state, as sent in an entry key.
struct StateItem {
  std::string name;
  Digest digest;
  std::string text;
};

struct ModuleState {
  std::vector<StateItem> items;
  std::vector<std::string> opaque;  ///< "path: type" of attributes that cannot be digested
};

/// Walks an nn.Module tree (or any object) and digests everything a trace can read: one item for
/// each module (class, training, attributes, hooks; parameters and buffers by name, dtype,
/// sizes, strides, device and aliasing, never values), and one for each method of the user's
/// classes ("code pkg.Class.forward"). About a millisecond for a Llama. Needs the GIL.
ModuleState StateOf(PyObject* root, const std::string& name);

}  // namespace ingot::client
