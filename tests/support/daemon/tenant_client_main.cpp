// SPDX-License-Identifier: Apache-2.0
// A client for tests to start as another user: says one thing to the daemon at a socket, and prints what came of it.
//   SOCKET compile FUNCTION GRAPH | lookup FUNCTION | claim FUNCTION TENANT | quarantine ARTIFACT | query VERB
//   SOCKET ask VERB NAME VALUE ...
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/daemon/test_server.h"

namespace ingot::daemon {
namespace {

using Json = nlohmann::json;

/// What follows a verb: names and values in turn.
Json Arguments(const std::vector<std::string>& words) {
  Json arguments = Json::object();
  for (size_t i = 2; i + 1 < words.size(); i += 2) arguments[words[i]] = words[i + 1];
  return arguments;
}

std::string Ask(client::Connection& connection, const std::vector<std::string>& words) {
  const std::string& what = words.at(0);
  const auto said = [](const auto& answer) {
    return answer ? std::string("ok") : std::string(CodeName(answer.error().code()));
  };
  if (what == "compile") {
    const auto compiled = connection.Compile(MakeCompile(words.at(1), words.at(2)));
    return compiled ? "compiled " + ReadAll(compiled->file) : said(compiled) + " " + compiled.error().message();
  }
  if (what == "lookup" || what == "claim") {
    auto key = MakeKey(words.at(1));
    if (what == "claim") key->components.push_back(MakeComponent("tenant", "of", words.at(2)));
    const auto found = connection.Lookup(*key);
    if (!found) return said(found);
    return found->reply.found ? "found " + ReadAll(found->files.at(0)) : "missed " + found->reply.why;
  }
  if (what == "quarantine") {
    const Json arguments = {{"artifact", words.at(1)}, {"why", "it says so"}};
    return said(connection.Query("quarantine", arguments.dump()));
  }
  if (what == "ask") {
    const auto answer = connection.Query(words.at(1), Arguments(words).dump());
    return answer ? *answer : answer.error().ToText();
  }
  return said(connection.Query(words.at(1)));
}

}  // namespace
}  // namespace ingot::daemon

int main(int count, char** values) {
  using namespace ingot;
  client::ConnectionOptions options;
  options.socket = values[1];
  options.start = false;
  options.hello_ms_max = 2000;
  const auto connection = client::Connection::Open(options);
  if (!connection) {
    fmt::print("{}", connection.error().ToText());
    return 0;
  }
  fmt::print("{}", daemon::Ask(**connection, {values + 2, values + count}));
  return 0;
}
