// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/filesystem.h"
#include "tools/ingot/table.h"
#include "tools/ingot/terminal.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

void PrintRows(const Json& rows) {
  Table table({"key", "function", "variants#", "bytes#", "signer", "outcome", "why"});
  for (const Json& row : rows) {
    const std::string outcome = row.value("outcome", ""), signer = row.value("signer", "");
    const Paint paint = outcome == "refused" ? Paint::kBad : outcome == "new" ? Paint::kGood : Paint::kDim;
    table.Add({row.value("key", "").substr(0, 12), Printable(row.value("function", "")), row["variants"].dump(),
               BytesText(row["bytes"].get<uint64_t>()), signer.empty() ? "nobody" : signer.substr(0, 12),
               Painted(paint, outcome), Printable(row.value("why", ""))});
  }
  table.Print();
}

Status RunImport(Session& session, const Arguments& arguments) {
  const std::string path = arguments.Text("file");
  // Nothing is started for a file that is not there.
  TRY_ASSIGN(const UniqueFd file, OpenRegular(path));
  const bool is_dry = arguments.Flag("dry-run"), allows_unsigned = arguments.Flag("allow-unsigned");
  if (allows_unsigned && !arguments.json) {
    fmt::print(stderr,
               "ingot: --allow-unsigned: nobody vouches for this code but you; it will run in every program of "
               "yours that asks for it\n");
  }
  Result<Json> asked =
      session.AskLong("import", {{"dry_run", is_dry}, {"allow_unsigned", allows_unsigned}}, {file.get()});
  if (!asked) return std::move(asked).error().Wrap(path);
  Json answer = {{"file", path}};
  answer.update(*asked);
  const auto refused = answer["refused"].get<uint64_t>();
  if (!PrintedJson(arguments, answer)) {
    if (is_dry || refused != 0) PrintRows(answer["rows"]);
    fmt::print("{} {} of {} entries{}, {} known, {} refused\n", is_dry ? "would take" : "took", answer["new"].dump(),
               answer["entries"].dump(), refused == 0 ? "" : " of the bundle", answer["known"].dump(), refused);
  }
  const auto graphs_refused = answer["graphs_refused"].get<uint64_t>();
  if (refused == 0 && graphs_refused != 0) {
    return Error(Code::kHalfDone, fmt::format("{} records of graphs were refused, for the reasons in the daemon's log "
                                              "(`ingot daemon log`); the entries have come",
                                              graphs_refused));
  }
  if (refused == 0) return {};
  const bool all = refused == answer["entries"].get<uint64_t>();
  return Error(all ? Code::kUnavailable : Code::kHalfDone,
               fmt::format("{} entries were refused, each for the reason above; `ingot trust list` shows whom this "
                           "machine trusts, and --allow-unsigned takes what nobody has signed",
                           refused));
}

}  // namespace

Verb ImportVerb() {
  return {"import",
          "Takes what a bundle has, as far as it is trusted here",
          {{"file", "The bundle", Parameter::kRequired, values::kFile},
           {"dry-run", "Only lists what would come", Parameter::kFlag},
           {"allow-unsigned", "Also takes what nobody has signed: you vouch for it", Parameter::kFlag}},
          true,
          RunImport,
          true};
}

}  // namespace ingot::tools
