// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "base/digest.h"

namespace ingot::client {

/// One named part of a program's structure, as sent in an entry key.
struct StateItem {
  std::string name;
  Digest digest;
  std::string text;
};

struct ModuleState {
  std::vector<StateItem> items;
};

/// The structure of a torch.nn.Module tree, which is known before any trace and part of the entry
/// key: of each module its class, training flag and the metadata of its parameters and buffers
/// (name, dtype, sizes, strides, device, aliasing; never values). Of anything else its class. What a
/// program reads beyond that, its dependency record says. Needs the GIL.
ModuleState StructureOf(PyObject* root, const std::string& name);

}  // namespace ingot::client
