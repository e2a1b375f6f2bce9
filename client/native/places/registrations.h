// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>

#include "base/digest.h"

namespace ingot::client {

/// Changes with every class that is registered with an abstract one. Needs the GIL.
uint64_t RegistrationsNow();

/// Classes that an abstract one takes for its heirs because they are registered, by name. Looks through all that comes
/// from it, once for each state of RegistrationsNow(). Needs the GIL.
Digest DigestOfRegistry(PyObject* type);

/// Whether a program has given operators of PyTorch kernels of its own (`torch.library`) that calls on the CPU run:
/// native code computes what PyTorch's own give.
bool OperatorsAreOverridden();

}  // namespace ingot::client
