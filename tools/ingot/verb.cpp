// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/verb.h"

#include <cstdio>

namespace ingot::tools {

std::string Arguments::Text(const std::string& name) const {
  const auto at = texts.find(name);
  return at == texts.end() ? std::string() : at->second;
}

Result<client::Connection*> Session::Connect() {
  if (connection_ == nullptr) {
    auto connection = client::Connection::Open(options_);
    if (!connection && !options_.start && connection.error().code() == Code::kUnavailable) {
      return Error(Code::kUnavailable,
                   connection.error().message() +
                       "; `ingot daemon start` starts one, and so does the first program that uses the store");
    }
    TRY_ASSIGN(connection_, std::move(connection));
  }
  return connection_.get();
}

Result<Json> Session::Ask(const std::string& verb, const Json& arguments) {
  TRY_ASSIGN(client::Connection* const connection, Connect());
  TRY_ASSIGN(const std::string text, connection->Query(verb, arguments.dump()));
  Json answer = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (answer.is_discarded()) {
    return Error(Code::kCorrupt, "the daemon's answer to '" + verb + "' is not JSON");
  }
  return answer;
}

bool PrintedJson(const Arguments& arguments, const Json& answer) {
  if (!arguments.json) return false;
  std::puts(answer.dump(2).c_str());
  return true;
}

}  // namespace ingot::tools
