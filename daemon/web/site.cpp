// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/site.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>

#include "base/log.h"
#include "cache/async/waiter.h"
#include "daemon/admin/verbs.h"
#include "daemon/web/assets.h"
#include "daemon/web/exposition.h"
#include "daemon/web/listen_address.h"
#include "daemon/web/picture.h"

namespace ingot::daemon::web {

namespace asio = boost::asio;

/// A verb that is answered under a path, with those of its arguments that a query may give.
struct Route {
  const char* path;
  const char* verb;
  std::vector<const char*> texts, numbers;
};

namespace {

constexpr const char* kJson = "application/json";

const std::vector<Route>& Routes() {
  static const std::vector<Route> routes = {
      {"/api/overview", "overview", {}, {}},  {"/api/entries", "list", {"function", "key", "after"}, {"limit"}},
      {"/api/entry", "inspect", {"key"}, {}}, {"/api/why-miss", "why-miss", {"key"}, {}},
      {"/api/doctor", "doctor", {}, {}},      {"/api/text", "text", {"graph", "stage"}, {}},
  };
  return routes;
}

struct Asset {
  const char* path;
  const char* type;
  std::string_view content;
  bool is_open;  ///< Also for those who do not know the token: it says nothing of what is here.
};

std::span<const Asset> Assets() {
  static const Asset assets[] = {
      {"/", "text/html; charset=utf-8", kPageHtml, false},
      {"/page.css", "text/css; charset=utf-8", kPageCss, true},
      {"/page.js", "text/javascript; charset=utf-8", kPageJs, true},
      {"/icon.svg", "image/svg+xml", kIconSvg, true},
  };
  return assets;
}

const Asset* AssetAt(std::string_view path) {
  const auto at = std::ranges::find_if(Assets(), [&](const Asset& asset) { return asset.path == path; });
  return at == Assets().end() ? nullptr : &*at;
}

unsigned HttpStatus(Code code) {
  switch (code) {
    case Code::kInvalid: return 400;
    case Code::kNotFound: return 404;
    case Code::kUnsupported: return 422;
    case Code::kTimeout: return 504;
    case Code::kExhausted:
    case Code::kCancelled:
    case Code::kUnavailable: return 503;
    default: return 500;
  }
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

HttpAnswer RefuseWith(unsigned status, const std::string& message) {
  return {.status = status, .type = kJson, .body = Dump({{"error", {{"code", "refused"}, {"message", message}}}})};
}

HttpAnswer AnswerOf(const Result<std::string>& answer) {
  if (answer) return {.type = kJson, .body = *answer};
  const Error& error = answer.error();
  return {.status = HttpStatus(error.code()),
          .type = kJson,
          .body = Dump({{"error", {{"code", CodeName(error.code())}, {"message", error.message()}}}})};
}

/// The value of a cookie; empty: there is none.
std::string_view CookieOf(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const size_t end = std::min(header.find(';'), header.size());
    std::string_view one = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) return one.substr(name.size() + 1);
  }
  return {};
}

/// Whether a form comes from a page of this site: browsers say where one stands.
bool IsOwnOrigin(const HttpRequest& request) {
  return request.origin.empty() || request.origin == "http://" + request.host ||
         request.origin == "https://" + request.host;
}

Result<std::string> ArgumentsOf(const Route& route, const Fields& query) {
  Json arguments = Json::object();
  for (const auto& [name, value] : query) {
    const auto is_named = [&name](const char* one) { return name == one; };
    if (std::ranges::any_of(route.texts, is_named)) {
      arguments[name] = value;
    } else if (std::ranges::any_of(route.numbers, is_named)) {
      uint64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (error != std::errc() || end != value.data() + value.size()) {
        return Error(Code::kInvalid, fmt::format("'{}' must be a whole number of 0 or more", name));
      }
      arguments[name] = number;
    } else {
      return Error(Code::kInvalid, fmt::format("{} takes no '{}'", route.path, name));
    }
  }
  // What takes the machine to make code is for the command line.
  if (const std::string stage = arguments.value("stage", ""); stage == "llvm" || stage == "asm") {
    return Error(Code::kInvalid, fmt::format("`ingot text KEY {}` shows this stage", stage));
  }
  return Dump(arguments);
}

/// A result on its way from the pool.
struct Asked {
  std::optional<Result<std::string>> result;
  std::shared_ptr<cache::Waiter> waiter = std::make_shared<cache::Waiter>();
};

asio::awaitable<void> Deliver(asio::awaitable<Result<std::string>> work, std::shared_ptr<Asked> asked) {
  try {
    asked->result = co_await std::move(work);
  } catch (const std::exception& thrown) {
    // Nothing of ours throws: what does is memory that is short, for this request alone.
    LogError("failed to answer a browser", {{"reason", thrown.what()}});
    asked->result = Error(Code::kExhausted, fmt::format("the daemon could not answer: {}", thrown.what()));
  }
  asked->waiter->Wake();
}

Task<std::string> DrawText(std::string program, std::string dot, PictureLimits limits) {
  co_return Draw(program, dot, limits);
}

}  // namespace

Site::Site(Core& core, Queries& queries, std::string token, std::string cookie)
    : core_(core),
      queries_(queries),
      token_(std::move(token)),
      cookie_(std::move(cookie)),
      logins_(core.config, core.clock),
      pool_(core.config.web_threads, core.config.web_queries_max) {}

Until Site::Soon() const { return Until::In(std::chrono::seconds(core_.config.web_request_s_max)); }

bool Site::KnowsToken(const HttpRequest& request) const {
  constexpr std::string_view kBearer = "Bearer ";
  if (request.authorization.starts_with(kBearer) &&
      IsSame(std::string_view(request.authorization).substr(kBearer.size()), token_)) {
    return true;
  }
  return logins_.Has(CookieOf(request.cookie, cookie_));
}

/// Why this request is not answered, where it is not.
std::optional<HttpAnswer> Site::Refusal(const HttpRequest& request, const Target& target) const {
  // A page elsewhere can make a browser ask, although not read: it shall not even make work here.
  if (request.fetch_site == "cross-site" && target.path != "/")
    return RefuseWith(403, "asked by a page of another site");
  if (token_.empty()) {
    if (!IsLoopbackHost(request.host)) {
      return RefuseWith(403, "this page is at localhost or 127.0.0.1, and under no other name (Host)");
    }
    if (!request.user || (*request.user != geteuid() && *request.user != 0)) {
      return RefuseWith(403,
                        "this daemon serves the programs of its own user alone; with web_token_file it serves whoever "
                        "knows the token");
    }
    return std::nullopt;
  }
  const Asset* asset = AssetAt(target.path);
  if (asset != nullptr && asset->is_open) return std::nullopt;
  if (KnowsToken(request)) return std::nullopt;
  HttpAnswer answer = RefuseWith(401, "say the token: Authorization: Bearer ...");
  if (target.path == "/") answer = {.status = 401, .type = "text/html; charset=utf-8", .body = std::string(kLoginHtml)};
  answer.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"ingot\"");
  return answer;
}

asio::awaitable<HttpAnswer> Site::Answer(HttpRequest request) {
  const std::optional<Target> target = ParseTarget(request.target);
  if (!target) co_return RefuseWith(400, "no such address: /path?name=value&... with each name once");
  const bool is_form = target->path == "/login" || target->path == "/logout";
  const bool is_read = request.method == "GET" || request.method == "HEAD";
  if (is_form ? request.method != "POST" : !is_read) {
    HttpAnswer answer = RefuseWith(405, "this address is for reading, or for the form of the page");
    answer.headers.emplace_back("Allow", is_form ? "POST" : "GET, HEAD");
    co_return answer;
  }
  if (target->path == "/login" && !token_.empty()) co_return co_await LogIn(std::move(request));
  if (std::optional<HttpAnswer> refusal = Refusal(request, *target)) co_return *std::move(refusal);
  if (target->path == "/logout") co_return LogOut(request);
  if (const Asset* asset = AssetAt(target->path)) {
    co_return HttpAnswer{.type = asset->type, .body = std::string(asset->content)};
  }
  if (target->path == "/metrics") co_return co_await AnswerMetrics();
  if (target->path == "/api/picture") co_return co_await AnswerPicture(*target);
  for (const Route& route : Routes()) {
    if (target->path == route.path) co_return co_await AnswerVerb(*target, route);
  }
  co_return RefuseWith(404, "nothing is here; the page is at /");
}

asio::awaitable<HttpAnswer> Site::LogIn(HttpRequest request) {
  if (!IsOwnOrigin(request)) co_return RefuseWith(403, "the form of another site");
  const std::optional<Fields> form = ParseFields(request.body);
  const auto at = form ? form->find("token") : Fields::const_iterator();
  if (!form || at == form->end() || !IsSame(at->second, token_)) {
    // Guessing is slow, also for who has all the connections.
    const auto nothing = std::make_shared<cache::Waiter>();
    const Until pause = Until::In(std::chrono::seconds(1));
    Ignore(co_await cache::Waiter::Wait(nothing, pause), "it is a pause");
    std::string page(kLoginHtml);
    constexpr std::string_view kHidden = " hidden>";
    if (const size_t place = page.find(kHidden); place != std::string::npos) page.replace(place, kHidden.size(), ">");
    co_return HttpAnswer{.status = 401,
                         .type = "text/html; charset=utf-8",
                         .body = std::move(page),
                         .headers = {{"WWW-Authenticate", "Bearer realm=\"ingot\""}}};
  }
  Result<std::string> name = logins_.Add();
  if (!name) co_return AnswerOf(name);
  const std::string cookie =
      fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}", cookie_, *name, core_.config.web_login_s_max);
  co_return HttpAnswer{.status = 303, .body = "", .headers = {{"Location", "/"}, {"Set-Cookie", cookie}}};
}

HttpAnswer Site::LogOut(const HttpRequest& request) {
  if (!IsOwnOrigin(request)) return RefuseWith(403, "the form of another site");
  logins_.Remove(CookieOf(request.cookie, cookie_));
  const std::string cookie = fmt::format("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", cookie_);
  return {.status = 303, .body = "", .headers = {{"Location", "/"}, {"Set-Cookie", cookie}}};
}

/// Runs on the pool; what comes after the deadline is dropped.
Task<std::string> Site::OnPool(asio::awaitable<Result<std::string>> work, Until until) {
  auto asked = std::make_shared<Asked>();
  if (!pool_.Spawn(Deliver(std::move(work), asked))) {
    co_return Error(Code::kExhausted, "other browsers are answered first (web_queries_max); try again");
  }
  CO_TRY(co_await cache::Waiter::Wait(asked->waiter, until));
  co_return *std::move(asked->result);
}

Task<std::string> Site::Ask(std::string verb, std::string arguments, Until until) {
  Caller caller(Right::kAdminister);
  co_return co_await OnPool(queries_.Run(std::move(verb), std::move(arguments), until, std::move(caller)), until);
}

asio::awaitable<HttpAnswer> Site::AnswerVerb(Target target, const Route& route) {
  Result<std::string> arguments = ArgumentsOf(route, target.query);
  if (!arguments) co_return AnswerOf(arguments);
  co_return AnswerOf(co_await Ask(route.verb, *std::move(arguments), Soon()));
}

asio::awaitable<HttpAnswer> Site::AnswerMetrics() {
  const Result<std::string> answer = co_await Ask("metrics", "", Soon());
  if (!answer) co_return AnswerOf(answer);
  const Json json = Json::parse(*answer, nullptr, /*allow_exceptions=*/false);
  co_return HttpAnswer{.type = std::string(kExpositionType), .body = json.value("text", "")};
}

/// `svg`, or why there is none; in any case the text that makes it.
asio::awaitable<HttpAnswer> Site::AnswerPicture(Target target) {
  const Route route{"/api/picture", "text", {"graph"}, {}};
  Result<std::string> arguments = ArgumentsOf(route, target.query);
  if (!arguments) co_return AnswerOf(arguments);
  Json asked = Json::parse(*arguments, nullptr, /*allow_exceptions=*/false);
  asked["stage"] = "dot";
  const Result<std::string> answer = co_await Ask("text", Dump(asked), Soon());
  if (!answer) co_return AnswerOf(answer);
  const Json json = Json::parse(*answer, nullptr, /*allow_exceptions=*/false);
  const std::string dot = json.value("text", "");
  const Config& config = core_.config;
  const Result<SandboxMode> sandbox = ParseSandboxMode(config.worker_sandbox);
  const PictureLimits limits{std::chrono::seconds(config.web_picture_s_max), config.web_picture_bytes_max,
                             config.web_picture_memory_bytes_max, sandbox ? *sandbox : SandboxMode::kRequired};
  const Until until = Until::In(limits.time + std::chrono::seconds(config.web_request_s_max));
  const Result<std::string> svg = co_await OnPool(DrawText(config.web_dot, dot, limits), until);
  Json out{{"dot", dot}, {"svg", nullptr}, {"why", ""}};
  if (svg) {
    out["svg"] = *svg;
  } else {
    const Code code = svg.error().code();
    const char* const setting = code == Code::kNotFound    ? " (web_dot)"
                                : code == Code::kTimeout   ? " (web_picture_s_max)"
                                : code == Code::kExhausted ? " (web_picture_bytes_max)"
                                                           : "";
    out["why"] = svg.error().message() + setting;
  }
  co_return HttpAnswer{.type = kJson, .body = Dump(out)};
}

}  // namespace ingot::daemon::web
