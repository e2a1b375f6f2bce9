// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/async/task.h"
#include "daemon/admin/queries.h"
#include "daemon/core.h"
#include "daemon/state/thread_pool.h"
#include "daemon/web/target.h"
#include "daemon/web/token.h"

namespace ingot::daemon::web {

/// What a browser asks, as far as anything here depends on it. Absent headers are empty.
struct HttpRequest {
  std::string method, target;
  std::string host, authorization, cookie, origin, fetch_site;
  std::string body;
  /// Who is at the other end of a connection over loopback (peer_user.h).
  std::optional<uid_t> user;
};

struct HttpAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// The pages, /metrics, and the verbs behind /api/: who may see them and what is answered. Reads only: nothing here
/// changes what the daemon holds. Whoever may not is told why, and nothing else.
///
/// With a token everybody must know it. Without one, which is allowed on loopback alone, this user's and root's
/// programs are answered, and only under a name that leads here from nowhere else (IsLoopbackHost).
///
/// Answers are made on a pool of its own, so that no browser keeps the command line or a client waiting. Thread-safe.
class Site {
 public:
  /// `token` empty: none is asked. `cookie`: the name of the cookie of logins.
  Site(Core& core, Queries& queries, std::string token, std::string cookie);

  boost::asio::awaitable<HttpAnswer> Answer(HttpRequest request);
  /// Finishes what was begun; nothing is taken any more.
  void Stop() { pool_.Stop(); }

 private:
  std::optional<HttpAnswer> Refusal(const HttpRequest& request, const Target& target) const;
  bool KnowsToken(const HttpRequest& request) const;
  boost::asio::awaitable<HttpAnswer> LogIn(HttpRequest request);
  HttpAnswer LogOut(const HttpRequest& request);
  boost::asio::awaitable<HttpAnswer> AnswerVerb(Target target, const struct Route& route);
  boost::asio::awaitable<HttpAnswer> AnswerMetrics();
  boost::asio::awaitable<HttpAnswer> AnswerPicture(Target target);
  Task<std::string> Ask(std::string verb, std::string arguments, Until until);
  Task<std::string> OnPool(boost::asio::awaitable<Result<std::string>> work, Until until);
  Until Soon() const;

  Core& core_;
  Queries& queries_;
  const std::string token_;
  const std::string cookie_;
  Logins logins_;
  ThreadPool pool_;
};

}  // namespace ingot::daemon::web
