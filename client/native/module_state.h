// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "base/digest.h"

namespace ingot::client {

/// One named part of a program's state, as sent in an entry key or a dependency record.
struct StateItem {
  std::string kind;  ///< of a dependency: "attribute", "global", "class"; empty in a key
  std::string name;
  Digest digest;
  std::string text;
};

struct ModuleState {
  std::vector<StateItem> items;
  std::vector<std::string> opaque;  ///< "path: type" of values that cannot be digested
  std::vector<PyObject*> codes;     ///< borrowed: code that the digests cover
};

/// The structure of a torch.nn.Module tree, which is known before any trace and part of the entry
/// key: of each module its class, training flag, hooks and the metadata of its parameters and
/// buffers (name, dtype, sizes, strides, device, aliasing; never values); of PyTorch's own modules
/// every attribute too, because code that no record holds reads them. Of anything else its class.
/// Methods that somebody put in place of PyTorch's are named. Needs the GIL.
ModuleState StructureOf(PyObject* root, const std::string& name);

/// Functions in `namespaces` (dicts of PyTorch's, by name) that are not PyTorch's own.
std::vector<StateItem> PatchedIn(PyObject* namespaces);

}  // namespace ingot::client
