// SPDX-License-Identifier: Apache-2.0
// What browsers, scrapers and those who are neither see of the daemon, over real sockets.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/web/listen_address.h"
#include "tests/support/daemon/test_server.h"
#include "tests/support/eventually.h"

namespace ingot::daemon::web {
namespace {

using nlohmann::json;

constexpr const char* kToken = "0123456789abcdef-token";
/// Long enough for any machine; what does not come by then does not come.
constexpr int kPatience_s = 60;

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string body;
};

/// One connection that sends what it likes.
class Browser {
 public:
  explicit Browser(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = kPatience_s, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // The other side may close before it has read all.
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void EndWriting() { shutdown(socket_.get(), SHUT_WR); }
  /// False: nothing came in kPatience_s, or the connection is at its end.
  bool Read() {
    char piece[4096];
    ssize_t got;
    // Drawing ends with a signal, and a wait that has a limit is not begun again by the kernel.
    while ((got = recv(socket_.get(), piece, sizeof piece, 0)) < 0 && errno == EINTR) {
    }
    is_late_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (got > 0) in_.append(piece, static_cast<size_t>(got));
    return got > 0;
  }
  /// The other side closed, and did so by itself.
  bool IsClosed() {
    while (Read()) {
    }
    return !is_late_;
  }
  /// The other side has thrown the connection away, with what it had not read.
  bool IsCut() {
    pollfd cut{socket_.get(), 0, 0};
    return poll(&cut, 1, kPatience_s * 1000) == 1;
  }
  std::optional<Answer> Next(bool is_head = false) {
    size_t end = 0;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
      if (!Read()) return std::nullopt;
    }
    Answer answer;
    std::string head = in_.substr(0, end + 2);
    in_.erase(0, end + 4);
    EXPECT_TRUE(head.starts_with("HTTP/1.")) << head;
    answer.status = std::stoi(head.substr(9, 3));
    for (size_t at = head.find("\r\n") + 2; at < head.size();) {
      const size_t line = head.find("\r\n", at), colon = head.find(": ", at);
      answer.headers[head.substr(at, colon - at)] = head.substr(colon + 2, line - colon - 2);
      at = line + 2;
    }
    const size_t length = is_head ? 0 : std::stoul(answer.headers["Content-Length"]);
    while (in_.size() < length) {
      if (!Read()) return std::nullopt;
    }
    answer.body = in_.substr(0, length);
    in_.erase(0, length);
    return answer;
  }
  const std::string& unread() const { return in_; }

 private:
  UniqueFd socket_;
  std::string in_;
  bool is_late_ = false;
};

class WebTest : public ServerTest {
 protected:
  void SetUp() override {
    config_.web_listen = "127.0.0.1:0";
    ServerTest::SetUp();
  }
  void Restart() {
    StopServer();
    StartServer();
  }
  uint16_t port() {
    const std::string url = json::parse(*Connect()->Query("status"))["web"];
    EXPECT_TRUE(url.starts_with("http://127.0.0.1:")) << url;
    return ParseListen(url.substr(7, url.size() - 8))->port();
  }
  static std::string Request(const std::string& target, const std::string& headers = "", const char* method = "GET",
                             const std::string& body = "") {
    return fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}{}\r\n{}", method, target, headers,
                       body.empty() ? "" : fmt::format("Content-Length: {}\r\n", body.size()), body);
  }
  Answer Ask(const std::string& target, const std::string& headers = "", const char* method = "GET",
             const std::string& body = "") {
    return AskRaw(Request(target, headers, method, body), std::string_view(method) == "HEAD");
  }
  Answer AskRaw(const std::string& bytes, bool is_head = false) {
    Browser browser(port());
    browser.Send(bytes);
    const auto answer = browser.Next(is_head);
    EXPECT_TRUE(answer) << "no answer to " << bytes.substr(0, 200);
    return answer.value_or(Answer());
  }
  json Api(const std::string& path) {
    const Answer answer = Ask("/api/" + path);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  void UseToken() {
    const std::string path = dir_.path() + "/token";
    std::ofstream(path) << kToken << "\n";
    chmod(path.c_str(), 0600);
    config_.web_token_file = path;
    Restart();
  }
  void ExpectAlive() {
    EXPECT_TRUE(Connect()->Query("status"));
    EXPECT_EQ(Ask("/").status, 200);
  }
  static std::string Bearer(const std::string& token) { return "Authorization: Bearer " + token + "\r\n"; }
};

TEST_F(WebTest, IsOffUnlessAskedFor) {
  config_.web_listen.clear();
  Restart();
  EXPECT_EQ(json::parse(*Connect()->Query("status"))["web"], "");
}

TEST_F(WebTest, ServesThePageAndWhatItNeeds) {
  const std::pair<const char*, const char*> files[] = {
      {"/", "text/html"}, {"/page.js", "text/javascript"}, {"/page.css", "text/css"}, {"/icon.svg", "image/svg"}};
  for (const auto& [path, type] : files) {
    Answer answer = Ask(path);
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_TRUE(answer.headers["Content-Type"].starts_with(type)) << path;
    EXPECT_GT(answer.body.size(), 100u) << path;
    EXPECT_EQ(answer.body.find("http://") == std::string::npos || std::string_view(path) != "/", true);
    EXPECT_TRUE(answer.headers["Content-Security-Policy"].starts_with("default-src 'none';")) << path;
    EXPECT_EQ(answer.headers["X-Content-Type-Options"], "nosniff");
    EXPECT_EQ(answer.headers["Cache-Control"], "no-store");
    EXPECT_FALSE(answer.headers.contains("Access-Control-Allow-Origin"));
  }
}

TEST_F(WebTest, AnswersHeadAsGetWithoutTheBody) {
  Browser browser(port());
  browser.Send(Request("/page.js", "", "HEAD") + Request("/page.js"));
  const auto head = browser.Next(/*is_head=*/true);
  const auto get = browser.Next();
  ASSERT_TRUE(head && get);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->headers.at("Content-Length"), std::to_string(get->body.size()));
}

TEST_F(WebTest, KnowsNoOtherAddress) {
  for (const char* target : {"/none", "/api/", "/api/evict?key=1", "/api/gc", "/api/stop", "/../../etc/passwd",
                             "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/page.js/", "/daemon/web/page.js"}) {
    EXPECT_EQ(Ask(target).status, 404) << target;
  }
  for (const char* target : {"/%", "/%zz", "/?a=1&a=2", "/%00", "*", "http://localhost/"}) {
    EXPECT_EQ(Ask(target).status, 400) << target;
  }
}

TEST_F(WebTest, ReadsAndDoesNothingElse) {
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "BREW"}) {
    Answer answer = Ask("/api/overview", "", method);
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_EQ(answer.headers["Allow"], "GET, HEAD") << method;
  }
  EXPECT_EQ(Ask("/login").status, 405);
  EXPECT_EQ(Ask("/login").headers["Allow"], "POST");
}

TEST_F(WebTest, BoundsWhatARequestMayBe) {
  EXPECT_EQ(Ask("/", "X: " + std::string(config_.web_header_bytes_max, 'x') + "\r\n").status, 431);
  EXPECT_EQ(AskRaw("GET /" + std::string(config_.web_header_bytes_max, 'x') + " HTTP/1.1\r\n\r\n").status, 431);
  EXPECT_EQ(Ask("/", "", "POST", std::string(config_.web_body_bytes_max + 1, 'x')).status, 413);
  // Announced only: it is refused before it comes.
  EXPECT_EQ(AskRaw("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n").status, 413);
  // In pieces, without a length in front.
  const std::string piece = "1000\r\n" + std::string(0x1000, 'x') + "\r\n";
  const std::string head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(AskRaw(head + piece + piece + piece).status, 413);
  ExpectAlive();
}

TEST_F(WebTest, RefusesWhatIsNoRequest) {
  for (const char* bytes :
       {"\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n", "\x16\x03\x01\x02\x01\x01\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
    EXPECT_EQ(AskRaw(bytes).status, 400) << bytes;
  }
  ExpectAlive();
}

TEST_F(WebTest, AnswersPipelinedRequestsInTheirOrder) {
  Browser browser(port());
  std::string all;
  for (int i = 0; i < 20; ++i) all += Request(i % 2 == 0 ? "/icon.svg" : "/none");
  browser.Send(all);
  for (int i = 0; i < 20; ++i) {
    const auto answer = browser.Next();
    ASSERT_TRUE(answer) << i;
    EXPECT_EQ(answer->status, i % 2 == 0 ? 200 : 404) << i;
  }
}

TEST_F(WebTest, AnswersWhoHasClosedHisSide) {
  Browser browser(port());
  browser.Send(Request("/api/overview"));
  browser.EndWriting();
  const auto answer = browser.Next();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_TRUE(browser.IsClosed());
}

TEST_F(WebTest, ClosesWhenAskedTo) {
  Browser browser(port());
  browser.Send(Request("/", "Connection: close\r\n"));
  EXPECT_EQ(browser.Next()->status, 200);
  EXPECT_TRUE(browser.IsClosed());
  Browser old(port());
  old.Send("GET /icon.svg HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(old.Next()->status, 200);
  EXPECT_TRUE(old.IsClosed());
}

TEST_F(WebTest, EndsARequestThatNeverEnds) {
  config_.web_request_s_max = 1;
  config_.web_idle_s_max = 0;
  Restart();
  Browser browser(port());
  browser.Send("GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
  // One byte after the other wins no time.
  std::atomic<bool> over{false};
  std::thread drip([&] {
    while (!over) {
      browser.Send("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // On purpose: somebody who is slow.
    }
  });
  EXPECT_TRUE(browser.IsClosed());
  over = true;
  drip.join();
}

TEST_F(WebTest, EndsAConnectionThatAsksNothing) {
  config_.web_idle_s_max = 1;
  Restart();
  Browser silent(port());
  EXPECT_TRUE(silent.IsClosed());
  Browser kept(port());
  kept.Send(Request("/icon.svg"));
  EXPECT_EQ(kept.Next()->status, 200);
  EXPECT_TRUE(kept.IsClosed());
}

TEST_F(WebTest, EndsAReaderThatDoesNotRead) {
  config_.web_request_s_max = 1;
  Restart();
  Browser browser(port());
  // More answers than the kernel keeps for a reader; what is not read is not made.
  std::string all;
  for (int i = 0; i < 2000; ++i) all += Request("/page.js");
  browser.Send(all);
  EXPECT_TRUE(browser.IsCut());
  ExpectAlive();
}

TEST_F(WebTest, LongestIdleConnectionMakesRoom) {
  config_.web_connections_max = 2;
  Restart();
  const uint16_t at = port();
  Browser first(at);
  first.Send(Request("/icon.svg"));
  EXPECT_EQ(first.Next()->status, 200);
  Browser second(at);
  second.Send("GET / HTT");
  for (int i = 0; i < 4; ++i) {
    Browser next(at);
    next.Send(Request("/icon.svg"));
    const auto answer = next.Next();
    ASSERT_TRUE(answer) << i;
    EXPECT_EQ(answer->status, 200);
  }
  EXPECT_TRUE(first.IsClosed());
  EXPECT_TRUE(second.IsClosed());
}

TEST_F(WebTest, SurvivesEveryTruncationAndBitFlip) {
  const uint16_t at = port();
  const std::string whole = Request("/api/entries?function=a%20b", "Cookie: ingot_0=1\r\n");
  for (size_t size = 0; size < whole.size(); ++size) {
    Browser browser(at);
    browser.Send(whole.substr(0, size));
    browser.EndWriting();
    EXPECT_TRUE(browser.IsClosed()) << size;
    EXPECT_EQ(browser.unread().find(" 200 "), std::string::npos) << size;
  }
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    Browser browser(at);
    browser.Send(damaged);
    browser.EndWriting();
    EXPECT_TRUE(browser.IsClosed()) << bit;
  }
  ExpectAlive();
}

TEST_F(WebTest, IsReachedUnderNoNameOfAnotherSite) {
  for (const char* host : {"evil.example", "evil.example:80", "localhost.evil.example", "10.0.0.1", ""}) {
    const Answer answer = AskRaw(fmt::format("GET /api/overview HTTP/1.1\r\nHost: {}\r\n\r\n", host));
    EXPECT_EQ(answer.status, 403) << host;
    EXPECT_EQ(answer.body.find("pid"), std::string::npos);
  }
  EXPECT_EQ(AskRaw("GET /api/overview HTTP/1.1\r\n\r\n").status, 403);
  EXPECT_EQ(AskRaw("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").status, 200);
}

TEST_F(WebTest, MakesNoWorkForAPageOfAnotherSite) {
  EXPECT_EQ(Ask("/api/overview", "Sec-Fetch-Site: cross-site\r\n").status, 403);
  EXPECT_EQ(Ask("/api/overview", "Sec-Fetch-Site: same-origin\r\n").status, 200);
  // Following a link to the page is fine.
  EXPECT_EQ(Ask("/", "Sec-Fetch-Site: cross-site\r\n").status, 200);
}

TEST_F(WebTest, WithoutATokenAnotherUserSeesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const uint16_t at = port();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    Browser browser(at);
    browser.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto answer = browser.Next();
    const std::string seen = answer ? std::to_string(answer->status) + answer->body : "nothing";
    _exit(write(ends[1], seen.data(), std::min<size_t>(seen.size(), 4096)) < 0 ? 1 : 0);
  }
  close(ends[1]);
  char seen[4096] = {};
  ssize_t got = read(ends[0], seen, sizeof seen - 1);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const std::string text(seen, got < 0 ? 0 : static_cast<size_t>(got));
  EXPECT_TRUE(text.starts_with("403")) << text;
  EXPECT_NE(text.find("web_token_file"), std::string::npos) << text;
}

TEST_F(WebTest, ListensToOtherMachinesWithATokenOnly) {
  StopServer();
  config_.web_listen = "0.0.0.0:0";
  compilers_ = std::make_unique<FakeCompilers>();
  core_ = std::make_unique<Core>(config_, *store_, graphs_, *compilers_, *clock_);
  Server server(*core_, ServerOptions{.endpoint = {dir_.path() + "/store", dir_.path() + "/s"}});
  const Status listens = server.Listen();
  ASSERT_FALSE(listens);
  EXPECT_EQ(listens.error().code(), Code::kInvalid);
  EXPECT_NE(listens.error().message().find("web_token_file"), std::string::npos);
}

TEST_F(WebTest, ShowsNothingToWhoDoesNotKnowTheToken) {
  UseToken();
  for (const char* target : {"/api/overview", "/metrics", "/api/entries", "/none", "/api/picture?graph=1"}) {
    Answer answer = Ask(target);
    EXPECT_EQ(answer.status, 401) << target;
    EXPECT_TRUE(answer.headers.contains("WWW-Authenticate"));
    EXPECT_EQ(Ask(target, Bearer("0123456789abcdef-tokem")).status, 401) << target;
    EXPECT_EQ(Ask(target, Bearer("")).status, 401) << target;
    EXPECT_EQ(Ask(target, "Cookie: ingot_0=\r\n").status, 401) << target;
  }
  const Answer page = Ask("/");
  EXPECT_EQ(page.status, 401);
  EXPECT_NE(page.body.find("type=\"password\""), std::string::npos);
  EXPECT_EQ(page.body.find(kToken), std::string::npos);
  EXPECT_EQ(Ask("/metrics", Bearer(kToken)).status, 200);
  // Any name leads here then: there is nothing that a page of another site could send along.
  EXPECT_EQ(AskRaw(fmt::format("GET /metrics HTTP/1.1\r\nHost: ingot.example\r\n{}\r\n", Bearer(kToken))).status, 200);
  EXPECT_EQ(Connect()->Query("config")->find(kToken), std::string::npos);
}

TEST_F(WebTest, LogsABrowserInAndOut) {
  UseToken();
  const std::string form = "Content-Type: application/x-www-form-urlencoded\r\n";
  EXPECT_EQ(Ask("/login", form, "POST", "token=wrong").status, 401);
  EXPECT_EQ(Ask("/login", form, "POST", "").status, 401);
  const std::string said = std::string("token=") + kToken;
  EXPECT_EQ(Ask("/login", form + "Origin: http://evil.example\r\n", "POST", said).status, 403);
  Answer in = Ask("/login", form + "Origin: http://localhost\r\n", "POST", said);
  ASSERT_EQ(in.status, 303);
  const std::string cookie = in.headers["Set-Cookie"];
  EXPECT_NE(cookie.find("; HttpOnly; SameSite=Strict"), std::string::npos) << cookie;
  EXPECT_EQ(cookie.find(kToken), std::string::npos);
  const std::string with = "Cookie: other=1; " + cookie.substr(0, cookie.find(';')) + "\r\n";
  EXPECT_EQ(Ask("/api/overview", with).status, 200);
  EXPECT_EQ(Ask("/logout", with, "POST").status, 303);
  EXPECT_EQ(Ask("/api/overview", with).status, 401);
}

TEST_F(WebTest, AnAddressThatIsTakenStopsNobody) {
  StopServer();
  UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  ASSERT_EQ(getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  config_.web_listen = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  StartServer();
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph f 4")));
  json status = json::parse(*Connect()->Query("status"));
  EXPECT_EQ(status["web"], "");
  EXPECT_NE(status["web_trouble"].get<std::string>().find(config_.web_listen), std::string::npos);
  EXPECT_NE(Connect()->Query("doctor")->find("web page"), std::string::npos);
  other.Reset();
  EXPECT_TRUE(support::Eventually([&] {
    status = json::parse(*Connect()->Query("status"));
    return status["web"] != "";
  }));
  EXPECT_EQ(status["web_trouble"], "");
  EXPECT_EQ(Ask("/").status, 200);
}

TEST_F(WebTest, TellsWhatTheDaemonDoes) {
  const auto connection = Connect();
  EXPECT_FALSE(connection->Lookup(*MakeKey("net.f"))->reply.found);
  compilers_->CloseGate();
  std::thread compile([&] { EXPECT_TRUE(Connect()->Compile(MakeCompile("net.f", "graph f 4"))); });
  compilers_->WaitForJob();
  json seen = Api("overview");
  EXPECT_EQ(seen["flights"], 1);
  ASSERT_EQ(seen["oldest_flights"].size(), 1u);
  EXPECT_EQ(seen["oldest_flights"][0]["function"], "net.f");
  EXPECT_EQ(seen["oldest_flights"][0]["lease"], "none");
  EXPECT_EQ(seen["oldest_flights"][0]["state"], "compiles");
  EXPECT_TRUE(seen["oldest_flights"][0]["left_s"].is_null()) << "nobody has seen anything like it";
  compilers_->OpenGate();
  compile.join();
  EXPECT_TRUE(connection->Lookup(*MakeKey("net.f"))->reply.found);
  seen = Api("overview");
  EXPECT_EQ(seen["flights"], 0);
  EXPECT_EQ(seen["hits"], 1);
  EXPECT_EQ(seen["misses"], 1);
  EXPECT_EQ(seen["store"]["entries"], 1);
  EXPECT_TRUE(seen["cluster"].is_null());
  EXPECT_GE(seen["samples"]["when"].size(), 1u);
  ASSERT_EQ(seen["newest_misses"].size(), 1u);
  EXPECT_EQ(seen["newest_misses"][0]["function"], "net.f");
  EXPECT_EQ(seen["newest_misses"][0]["reason"], "never_stored");
  const Answer metrics = Ask("/metrics");
  EXPECT_EQ(metrics.headers.at("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(metrics.body.find("\ningot_entry_hits_total 1\n"), std::string::npos);
  // Also the look-up that memory answered was timed.
  EXPECT_NE(metrics.body.find("\ningot_lookup_seconds_count 2\n"), std::string::npos);
}

TEST_F(WebTest, ShowsEntriesInPagesAndByKeyAndName) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Connect()->Compile(MakeCompile(fmt::format("f{}", i), fmt::format("graph f{} 4", i))));
  }
  std::set<std::string> keys;
  std::string after;
  for (int page = 0; page < 3; ++page) {
    const json seen = Api("entries?limit=2&after=" + after);
    ASSERT_EQ(seen["entries"].size(), page == 2 ? 1u : 2u);
    for (const json& entry : seen["entries"]) EXPECT_TRUE(keys.insert(entry["key"]).second);
    after = seen["next"].is_null() ? "" : seen["next"].get<std::string>();
  }
  EXPECT_EQ(after, "");
  EXPECT_EQ(keys.size(), 5u);
  for (const std::string& key : keys) {
    const json seen = Api("entries?key=" + key.substr(0, 12));
    ASSERT_EQ(seen["entries"].size(), 1u);
    EXPECT_EQ(seen["entries"][0]["key"], key);
    EXPECT_EQ(Api("entry?key=" + key)["key"], key);
    EXPECT_EQ(Api("why-miss?key=" + key)["reason"], "stored");
  }
  EXPECT_EQ(Api("entries?function=f3")["entries"].size(), 1u);
  EXPECT_EQ(Api("entries?function=none")["entries"].size(), 0u);
  EXPECT_EQ(Ask("/api/entries?limit=x").status, 400);
  EXPECT_EQ(Ask("/api/entries?key=zz").status, 400);
  EXPECT_EQ(Ask("/api/entries?recompile=1").status, 400);
  EXPECT_EQ(Ask("/api/entry?key=" + std::string(32, '0')).status, 404);
  EXPECT_EQ(Ask("/api/text?graph=f1&stage=asm").status, 400);
}

TEST_F(WebTest, DrawsAGraphOrShowsItsText) {
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph f 4")));
  const std::string program = dir_.path() + "/dot";
  std::ofstream(program)
      << "#!/bin/sh\necho \"<svg>\"; while IFS= read -r line; do echo \"$line\"; done; echo \"</svg>\"\n";
  chmod(program.c_str(), 0700);
  config_.web_dot = program;
  Restart();
  json drawn = Api("picture?graph=f");
  EXPECT_TRUE(drawn["svg"].get<std::string>().starts_with("<svg>\n" + drawn["dot"].get<std::string>()));
  EXPECT_NE(drawn["dot"], "");
  config_.web_dot = dir_.path() + "/none";
  Restart();
  drawn = Api("picture?graph=f");
  EXPECT_TRUE(drawn["svg"].is_null());
  EXPECT_NE(drawn["why"].get<std::string>().find("graphviz is not installed"), std::string::npos);
  EXPECT_NE(drawn["dot"], "");
}

TEST_F(WebTest, EndsWithTheDaemonWhateverIsOpen) {
  const uint16_t at = port();
  Browser idle(at), half(at);
  half.Send("GET / HTT");
  StopServer();
  EXPECT_TRUE(idle.IsClosed());
  EXPECT_TRUE(half.IsClosed());
}

}  // namespace
}  // namespace ingot::daemon::web
