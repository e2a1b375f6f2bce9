// SPDX-License-Identifier: Apache-2.0
// ingot-compile: what `ingot compile` runs. A program of its own, because it alone of the command
// line's verbs needs torch and the compiler, which take longer to load than the others to run.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "base/filesystem.h"
#include "cache/trust/signed_file.h"
#include "client/lib/exported/public_file.h"
#include "proto/endpoint.h"
#include "tools/ingot-compile/compile_file.h"
#include "tools/ingot-compile/confined.h"

namespace ingot::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string TextOf(const Json& report) {
  std::string text = fmt::format("{}: {} native steps, {} ATen steps, {} weights\n", report["file"].get<std::string>(),
                                 report["native_steps"].dump(), report["aten_steps"].dump(), report["weights"].dump());
  for (const Json& symbol : report["symbols"]) {
    text +=
        fmt::format("  {} ({}) from {} to {}\n", symbol["place"].get<std::string>(), symbol["name"].get<std::string>(),
                    symbol["min"].dump(), symbol["max"].is_null() ? "any size" : symbol["max"].dump());
  }
  const Json& variants = report["variants"];
  if (variants.size() > 1) text += fmt::format("  and {} for other sizes, among them 1\n", variants.size() - 1);
  return text;
}

/// Reads back what was written, and signs it: the key is in no process that has read the model.
Status Sign(const std::string& output, int written, const std::string& key_path) {
  std::string path = key_path;
  if (path.empty()) {
    TRY_ASSIGN(const std::string directory, cache::TrustDirectory());
    path = directory + "/signing.key";
  }
  TRY_ASSIGN(const cache::SigningKey key, cache::SigningKey::Load(path));
  const std::string again = fmt::format("/proc/self/fd/{}", written);
  TRY_ASSIGN(const Buffer content, RealFilesystem().Read(again, std::numeric_limits<int64_t>::max()));
  TRY_ASSIGN(const Buffer signature,
             cache::SignExportedFile(key, cache::SignedNameOf(output), content, SystemClock().now_s()));
  const Bytes parts[] = {signature};
  return client::WritePublicFile(cache::SignaturePathOf(output), parts);
}

/// Parses and runs what a stranger may have made where it reaches the model and the output alone.
Result<std::string> Compile(CompileRequest request, daemon::SandboxMode mode, bool json, bool signs,
                            const std::string& key) {
  TRY_ASSIGN(client::PublicFile opened, client::PublicFile::Create(request.output));
  std::optional<client::PublicFile> output(std::move(opened));
  request.descriptor = output->descriptor();
  Confined confined{mode, request.program, {request.program}, {output->descriptor()}, {}};
  if (request.program.ends_with(".onnx")) {
    // Its weights may lie beside it.
    const std::string folder = std::filesystem::path(request.program).parent_path().string();
    confined.readable.push_back(folder.empty() ? "." : folder);
  }
  confined.work = [&request, json]() -> Result<std::string> {
    TRY_ASSIGN(const Json report, CompileFile(request));
    return json ? report.dump(2) + "\n" : TextOf(report);
  };
  TRY_ASSIGN(std::string text, RunConfined(confined, [&output] { output.reset(); }));
  if (signs) TRY(Sign(request.output, output->descriptor(), key));
  TRY(output->PutInPlace());
  return text;
}

int Main(int count, char** values) {
  CLI::App app("Compiles an archive of torch.export.save or an ONNX model into a file that C++ and Python load",
               "ingot compile");
  app.set_version_flag("--version", std::string(proto::Version()));
  CompileRequest request;
  bool json = false;
  bool signs = false;
  std::string sandbox = "auto", key;
  app.add_option("program", request.program, "The archive (model.pt2) or ONNX model (model.onnx)")->required();
  app.add_option("-o,--output", request.output, "The file to write")->required();
  app.add_option("--dynamic", request.sizes, "Narrow a dynamic size: x.0=2..64; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--static", request.sizes, "Fix a dynamic size: x.0=4; may be repeated")->allow_extra_args(false);
  app.add_option("--value", request.values,
                 "Numbers that stand for an input of an ONNX model: shape=2,3; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--sandbox", sandbox,
                 "Read the model in a process that is shut off: auto = as far as the kernel can, required = or not at "
                 "all, off");
  app.add_flag("--sign", signs, "Sign the file: FILE.sig, which `ingot verify` and ingot.load(trust=) look at");
  app.add_option("--private-key", key, "The key to sign with; ~/.config/ingot/signing.key unless said");
  app.add_flag("--json", json, "Print JSON");
  try {
    app.parse(count, values);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(Code::kInvalid);
  }
  const Result<daemon::SandboxMode> mode = daemon::ParseSandboxMode(sandbox);
  const Result<std::string> text =
      mode ? Compile(std::move(request), *mode, json, signs, key) : Result<std::string>(mode.error());
  if (!text) {
    fmt::print(stderr, "ingot: {}\n", text.error().ToText());
    return static_cast<int>(text.error().code());
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace ingot::tools

int main(int count, char** values) { return ingot::tools::Main(count, values); }
