// SPDX-License-Identifier: Apache-2.0
// ingot-compile: what `ingot compile` runs. A program of its own, because it alone of the command
// line's verbs needs torch and the compiler, which take longer to load than the others to run.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>

#include "proto/endpoint.h"
#include "tools/ingot-compile/compile_file.h"

namespace ingot::tools {
namespace {

using Json = nlohmann::ordered_json;

void Print(const Json& report) {
  fmt::print("{}: {} native steps, {} ATen steps, {} weights\n", report["file"].get<std::string>(),
             report["native_steps"].dump(), report["aten_steps"].dump(), report["weights"].dump());
  for (const Json& symbol : report["symbols"]) {
    fmt::print("  {} ({}) from {} to {}\n", symbol["place"].get<std::string>(), symbol["name"].get<std::string>(),
               symbol["min"].dump(), symbol["max"].is_null() ? "any size" : symbol["max"].dump());
  }
  const Json& variants = report["variants"];
  if (variants.size() > 1) fmt::print("  and {} for other sizes, among them 1\n", variants.size() - 1);
}

int Main(int count, char** values) {
  CLI::App app("Compiles an archive of torch.export.save or an ONNX model into a file that C++ and Python load",
               "ingot compile");
  app.set_version_flag("--version", std::string(proto::Version()));
  CompileRequest request;
  bool json = false;
  app.add_option("program", request.program, "The archive (model.pt2) or ONNX model (model.onnx)")->required();
  app.add_option("-o,--output", request.output, "The file to write")->required();
  app.add_option("--dynamic", request.sizes, "Narrow a dynamic size: x.0=2..64; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--static", request.sizes, "Fix a dynamic size: x.0=4; may be repeated")->allow_extra_args(false);
  app.add_option("--value", request.values,
                 "Numbers that stand for an input of an ONNX model: shape=2,3; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--json", json, "Print JSON");
  try {
    app.parse(count, values);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(Code::kInvalid);
  }
  const Result<Json> report = CompileFile(request);
  if (!report) {
    fmt::print(stderr, "ingot: {}\n", report.error().ToText());
    return static_cast<int>(report.error().code());
  }
  if (json) {
    std::puts(report->dump(2).c_str());
  } else {
    Print(*report);
  }
  return 0;
}

}  // namespace
}  // namespace ingot::tools

int main(int count, char** values) { return ingot::tools::Main(count, values); }
