// SPDX-License-Identifier: Apache-2.0
#pragma once

// Precompiled once per target: only what nearly every file here includes anyway.
#include <torch/csrc/utils/pybind.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
