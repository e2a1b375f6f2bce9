// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>

namespace ingot::client {

/// Who in the program would get an exception that is raised now, on its way out of the frames inside `outermost`: the
/// line of an `except`, a `finally`, or a `with` whose object does something then, as "model.py:12". Empty where nobody
/// would: what PyTorch's own context managers do is undone by whoever ends the call otherwise. Needs the GIL, and runs
/// no code of the program.
std::string HandlerInside(const PyFrameObject* outermost);

}  // namespace ingot::client
