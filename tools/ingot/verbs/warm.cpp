// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>

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

/// Sends every capture; one that fails does not keep back the others.
Status Run(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Buffer file, ReadAll(arguments.Text("file")));
  TRY_ASSIGN(const std::vector<proto::CompileT> captures, proto::OpenCaptures(file));
  TRY_ASSIGN(client::Connection* const connection, session.Connect());
  Json rows = Json::array();
  std::optional<Error> failed;
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
  }
  if (!PrintedJson(arguments, Json{{"captures", rows}})) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const Json& row = rows[i];
      fmt::print("capture {}: {}{}\n", i, row["outcome"].get<std::string>(),
                 row.contains("why") ? ": " + row["why"].get<std::string>() : "");
    }
  }
  if (failed) return std::move(*failed);
  return {};
}

}  // namespace

Verb WarmVerb() {
  return {"warm",
          "Compiles what f.save_capture() saved, without the program",
          {{"file", "Capture file"}},
          true,
          Run};
}

}  // namespace ingot::tools
