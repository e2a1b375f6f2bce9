// SPDX-License-Identifier: Apache-2.0
// Compiles programs one after the other in one process, for tests that compile many: a request as JSON on each line
// of the input, {"program", "output", "sizes", "values"}, an answer on each line of the output: what `ingot compile
// --json` prints, or {"code", "error"}.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/ingot-compile/compile_file.h"

int main() {
  using Json = nlohmann::ordered_json;
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json asked = Json::parse(line);
    const auto list = [&asked](const char* key) { return asked.value(key, std::vector<std::string>{}); };
    const auto report = ingot::tools::CompileFile({asked["program"], asked["output"], list("sizes"), list("values")});
    const Json answer =
        report ? *report : Json{{"code", ingot::CodeName(report.error().code())}, {"error", report.error().message()}};
    std::puts(answer.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  }
  return 0;
}
