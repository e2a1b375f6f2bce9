// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::tools {

/// What `ingot compile` is asked for.
struct CompileRequest {
  std::string program;             ///< an archive of torch.export (.pt2) or an ONNX model (.onnx)
  std::string output;              ///< the exported file to write
  std::vector<std::string> sizes;   ///< "x.0=2..64", "x.0=4" (SizeChoice)
  std::vector<std::string> values;  ///< "shape=2,3": numbers that stand for an input of an ONNX model
  std::optional<int> descriptor;    ///< Where the bytes go instead of to a file of that name.
};

/// Makes the exported file; gives what `ingot compile --json` prints (docs/cli.md). Errors name the node that failed.
Result<nlohmann::ordered_json> CompileFile(const CompileRequest& request);

}  // namespace ingot::tools
