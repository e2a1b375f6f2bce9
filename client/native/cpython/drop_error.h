// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

namespace ingot::client {

/// Ends the error that is set, if there is one: it was an answer, such as that an attribute is not there. But many of
/// Python's functions run handlers of signals, and what those raise is the program's: it is raised again as soon as
/// Python code of the main thread goes on. Needs the GIL.
void DropError();

}  // namespace ingot::client
