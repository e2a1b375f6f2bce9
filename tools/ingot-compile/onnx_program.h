// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/result.h"
#include "client/onnx/onnx_model.h"
#include "tools/ingot-compile/program_graph.h"

namespace ingot::tools {

/// Records the model at a few sizes and generalizes each recording to a template with a range; at sizes that no range
/// has yet it is recorded again. The first graph is the most general one.
///
/// A recording at other sizes within a range has to be the template's instance. kInvalid: a choice that names no size;
/// kUnsupported: a size that is open in the model and fixed by it, with what fixed it and what to do.
Result<std::vector<ProgramGraph>> MakeOnnxGraphs(onnx::OnnxModel& model, const std::vector<SizeChoice>& choices);

}  // namespace ingot::tools
