// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/filesystem.h"
#include "tools/ingot/manifest_file.h"
#include "tools/ingot/table.h"
#include "tools/ingot/terminal.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status RunExport(Session& session, const Arguments& arguments) {
  const std::string path = arguments.Text("--output");
  TRY_ASSIGN(Json ask, SelectionOf(arguments));
  ask["unsigned"] = arguments.Flag("unsigned");
  if (const std::string manifest = arguments.Text("--manifest"); !manifest.empty()) {
    TRY_ASSIGN(const Json entries, ReadManifest(manifest));
    for (const Json& entry : entries) ask["keys"].push_back(entry.value("key", ""));
  }
  TRY_ASSIGN(NewFile file, NewFile::Create(path));
  Result<Json> asked = session.AskLong("export", std::move(ask), {file.fd()});
  if (!asked) return std::move(asked).error().Wrap(path);
  TRY(file.Finish());
  Json answer = {{"file", path}};
  answer.update(*asked);
  if (PrintedJson(arguments, answer)) return {};
  const std::string signer = answer.value("signer", "");
  fmt::print("wrote {}: {} entries with {} artifacts and texts, {}, {}\n", path, answer["entries"].dump(),
             answer["blobs"].dump(), BytesText(answer["bytes"].get<uint64_t>()),
             signer.empty() ? Painted(Paint::kWarn, "signed by nobody")
                            : fmt::format("signed by {} ({})", answer.value("signer_name", ""), signer.substr(0, 12)));
  for (const Json& row : answer["left_out"]) {
    fmt::print("left out {} {}: {}\n", row.value("key", "").substr(0, 12), Printable(row.value("function", "")),
               row.value("why", ""));
  }
  return {};
}

}  // namespace

Verb ExportVerb() {
  return {"export",
          "Writes entries with their artifacts into one file, signed, for other machines",
          {{"keys", "Keys, starts of keys, or functions' names", Parameter::kList, values::kKey},
           {"--function", "All entries of a function", Parameter::kOptional, values::kFunction},
           {"all", "All entries", Parameter::kFlag},
           {"--since", "Of those only what was used within this time (1h, 2d)", Parameter::kOptional, values::kTime},
           {"--manifest", "What a manifest names", Parameter::kOptional, values::kFile},
           {"-o,--output", "The bundle to write", Parameter::kRequired, values::kFile},
           {"unsigned", "Nobody vouches for it: others must say --allow-unsigned", Parameter::kFlag}},
          true,
          RunExport,
          true};
}

}  // namespace ingot::tools
