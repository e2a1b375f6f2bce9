// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "proto/capture_file.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Result<Buffer> ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error(Code::kNotFound, fmt::format("cannot read {}", path));
  return Buffer(std::istreambuf_iterator<char>(file), {});
}

std::string NameOf(proto::Outcome outcome) {
  switch (outcome) {
    case proto::Outcome::Compiled: return "compiled";
    case proto::Outcome::Joined: return "joined";
    case proto::Outcome::GraphHit: return "stored";
    case proto::Outcome::Proven: return "proven";
  }
  return "?";
}

/// Whether the program wants code of its own for each gear: the key has what it declared.
bool WantsSpecialCode(const proto::CompileT& capture) {
  for (const auto& component : capture.key->components) {
    if (component->name != "gears") continue;
    return std::ranges::any_of(component->items,
                               [](const auto& item) { return item->name == "specialize" && item->text == "True"; });
  }
  return false;
}

/// The last capture that each template serves, and what was answered.
using Served = std::map<Digest, std::pair<proto::CompileT, proto::VariantT>>;

/// Has every template compiled with code for the sizes that were saved; how many gained by it.
size_t Specialize(client::Connection& connection, const Served& served) {
  size_t gained = 0;
  for (const auto& [graph, one] : served) {
    auto [capture, general] = one;
    capture.gears = general.proven;
    const auto answer = connection.Compile(capture);
    // Without it the general code serves, as it does already.
    if (!answer) continue;
    const proto::VariantT& found = *answer->reply.variant;
    gained += found.artifact_low != general.artifact_low || found.artifact_high != general.artifact_high;
  }
  return gained;
}

/// Sends every capture; one that fails does not keep back the others.
Status RunWarm(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Buffer file, ReadAll(arguments.Text("file")));
  TRY_ASSIGN(const std::vector<proto::CompileT> captures, proto::OpenCaptures(file));
  TRY_ASSIGN(client::Connection* const connection, session.Connect());
  Json rows = Json::array();
  std::optional<Error> failed;
  Served served;
  for (const proto::CompileT& capture : captures) {
    const auto answer = connection->Compile(capture);
    Json row;
    row["outcome"] = answer ? NameOf(answer->reply.outcome) : "failed";
    row["compile_ms"] = answer ? answer->reply.compile_ms : 0;
    if (!answer) {
      row["why"] = answer.error().ToText();
      failed = answer.error();
    }
    rows.push_back(std::move(row));
    if (!answer || answer->reply.variant->kind != proto::VariantKind::Template || !WantsSpecialCode(capture)) continue;
    const proto::VariantT& variant = *answer->reply.variant;
    served.insert_or_assign({variant.graph_low, variant.graph_high}, std::pair(capture, variant));
  }
  const size_t gained = Specialize(*connection, served);
  if (!PrintedJson(arguments, Json{{"captures", rows}, {"specialized", gained}})) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const Json& row = rows[i];
      fmt::print("capture {}: {}{}\n", i, row["outcome"].get<std::string>(),
                 row.contains("why") ? ": " + row["why"].get<std::string>() : "");
    }
    if (gained != 0) fmt::print("{} with code of its own for each gear that gains by it\n", gained);
  }
  if (failed) return std::move(*failed);
  return {};
}

}  // namespace

Verb WarmVerb() {
  return {"warm",
          "Compiles what f.save_capture() saved, without the program",
          {{"file", "Capture file", Parameter::kRequired, values::kFile}},
          true,
          RunWarm,
          true};
}

}  // namespace ingot::tools
