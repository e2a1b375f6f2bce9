// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ingot::client {

/// Adds the class Recorder to an extension module.
void BindRecorder(pybind11::module_& m);

}  // namespace ingot::client
