// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ingot::client {

/// Adds the classes Recorder and Profiler to an extension module.
void BindRecorder(pybind11::module_& m);

}  // namespace ingot::client
