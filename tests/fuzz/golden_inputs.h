// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace ingot::fuzz {

/// The inputs of all golden tests: small graphs of many operators.
inline std::vector<Buffer> GoldenInputs() {
  std::vector<Buffer> inputs;
  for (const auto& file : std::filesystem::recursive_directory_iterator(INGOT_GOLDEN_DIR)) {
    if (file.path().extension() != ".ir") continue;
    std::ifstream stream(file.path());
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    const Bytes input = AsBytes(std::string_view(text).substr(0, text.find("# =>")));
    inputs.emplace_back(input.begin(), input.end());
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

}  // namespace ingot::fuzz
