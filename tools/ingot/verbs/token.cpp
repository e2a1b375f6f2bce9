// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/clock.h"
#include "cache/peer/remote_tokens.h"
#include "cache/trust/revocation.h"
#include "daemon/state/config.h"
#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

using cache::TokenGrant;

constexpr int64_t kDays = 90;
constexpr int64_t kDaysMax = 36'500;

/// The file of the server's tokens: as said, or as the daemon here would use it.
Result<std::string> TokensPath(const Arguments& arguments) {
  if (const std::string given = arguments.Text("--file"); !given.empty()) return given;
  TRY_ASSIGN(const daemon::Config config, daemon::ConfigOfEnvironment());
  if (!config.serve_tokens.empty()) return config.serve_tokens;
  return Error(Code::kInvalid, "which file of tokens? Say --file, or serve_tokens in the configuration");
}

Json GrantJson(const TokenGrant& grant, int64_t now_s) {
  const bool is_over = grant.expires_s != 0 && grant.expires_s <= now_s;
  return {{"id", grant.id()},
          {"name", grant.name},
          {"scopes", cache::ScopesText(grant.scopes)},
          {"audience", grant.audience},
          {"expires", grant.expires_s},
          {"state", grant.is_revoked ? "revoked"
                    : is_over        ? "expired"
                                     : "good"}};
}

Status RunNewToken(Session& /*session*/, const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, TokensPath(arguments));
  const std::string scope = arguments.Text("--scope");
  TRY_ASSIGN(const uint8_t scopes, cache::ScopesFromText(scope.empty() ? "read,write" : scope));
  int64_t days = kDays;
  if (const std::string text = arguments.Text("--days"); !text.empty()) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), days);
    if (code != std::errc() || end != text.data() + text.size() || days < 0 || days > kDaysMax) {
      return Error(Code::kInvalid, fmt::format("--days is a number from 0 (for ever) to {}", kDaysMax));
    }
  }
  const int64_t now_s = SystemClock().now_s();
  TRY_ASSIGN(const cache::NewToken token, cache::MakeToken(arguments.Text("name"), scopes, arguments.Text("--audience"),
                                                           days == 0 ? 0 : now_s + days * 86'400));
  // The secret is written first: a token that nobody has is of no use, one that nobody issued does nothing.
  const std::string out = arguments.Text("--out");
  TRY(cache::WriteTokenFile(out, token.secret));
  const Status added = cache::EditTokens(path, [&](std::vector<TokenGrant>& grants) -> Status {
    for (const TokenGrant& other : grants) {
      if (other.name != token.grant.name || other.is_revoked) continue;
      return Error(Code::kInvalid,
                   fmt::format("there is a token of that name: {}; revoke it, or take another name", other.id()));
    }
    grants.push_back(token.grant);
    return {};
  });
  if (!added) {
    std::error_code ignored;
    std::filesystem::remove(out, ignored);
    return added;
  }
  Json answer = GrantJson(token.grant, now_s);
  answer["file"] = path;
  answer["out"] = out;
  if (!PrintedJson(arguments, answer)) {
    fmt::print("token {} ({}) is in {}; give it to whoever is served as cluster_token_file\n", token.grant.id(),
               token.grant.name, out);
  }
  return {};
}

Status RunListTokens(Session& /*session*/, const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, TokensPath(arguments));
  TRY_ASSIGN(const std::vector<TokenGrant> grants, cache::ReadTokens(path));
  Json answer = {{"file", path}, {"tokens", Json::array()}};
  Table table({"id", "name", "scopes", "audience", "expires", "state"});
  for (const TokenGrant& grant : grants) {
    const Json json = GrantJson(grant, SystemClock().now_s());
    answer["tokens"].push_back(json);
    table.Add({grant.id(), grant.name, cache::ScopesText(grant.scopes), grant.audience,
               grant.expires_s == 0 ? "never" : cache::TimeText(grant.expires_s), json["state"].get<std::string>()});
  }
  if (PrintedJson(arguments, answer)) return {};
  fmt::print("{}\n", path);
  if (!grants.empty()) table.Print();
  return {};
}

Status RunRevokeToken(Session& /*session*/, const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, TokensPath(arguments));
  const std::string wanted = arguments.Text("token");
  Json answer;
  TRY(cache::EditTokens(path, [&](std::vector<TokenGrant>& grants) -> Status {
    std::vector<TokenGrant*> found;
    for (TokenGrant& grant : grants) {
      if (!grant.is_revoked && (grant.name == wanted || grant.id() == wanted)) found.push_back(&grant);
    }
    if (found.size() != 1) {
      return Error(found.empty() ? Code::kNotFound : Code::kInvalid,
                   fmt::format("{} tokens are called '{}'; `ingot token list` shows their ids", found.size(), wanted));
    }
    found.front()->is_revoked = true;
    answer = GrantJson(*found.front(), SystemClock().now_s());
    return {};
  }));
  answer["file"] = path;
  if (!PrintedJson(arguments, answer)) {
    fmt::print("revoked {}; servers notice within a second or two\n", answer["id"].get<std::string>());
  }
  return {};
}

}  // namespace

std::vector<Verb> TokenVerbs() {
  const Parameter file = {"--file", "The server's file of tokens (serve_tokens)", Parameter::kOptional};
  return {
      {"new",
       "Makes a token for another daemon; the server keeps its hash alone",
       {{"name", "Who will have it"},
        {"--audience", "serve_name of the server it is for; '*': of any", Parameter::kRequired},
        {"--out", "File that the token is written to, mode 0600", Parameter::kRequired},
        {"--scope", "Some of read, write, admin, with commas between (read,write)", Parameter::kOptional},
        {"--days", "Days until it expires; 0 = never (90)", Parameter::kOptional},
        file},
       true,
       RunNewToken},
      {"list", "Tokens of a server", {file}, true, RunListTokens},
      {"revoke", "Lets nobody in any more who shows it", {{"token", "Its id or name"}, file}, true, RunRevokeToken},
  };
}

}  // namespace ingot::tools
