// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace ingot::client {

void BindObserver(pybind11::module_& m);

}  // namespace ingot::client
