// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>

#include "tools/ingot/terminal.h"
#include "tools/ingot/top_view.h"

namespace ingot::tools {
namespace {

using Steady = std::chrono::steady_clock;

volatile std::sig_atomic_t is_over = 0;

/// The screen beside the one that the user works on; that one comes back as it was.
class Screen {
 public:
  Screen() {
    struct sigaction action{};
    action.sa_handler = [](int) { is_over = 1; };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    std::fputs("\x1b[?1049h\x1b[?25l", stdout);
  }
  ~Screen() {
    std::fputs("\x1b[?25h\x1b[?1049l", stdout);
    std::fflush(stdout);
  }
  void Show(const std::string& frame) const {
    std::string out = "\x1b[H";
    for (const char c : frame) {
      if (c == '\n') out += "\x1b[K";
      out += c;
    }
    out += "\x1b[J";
    std::fputs(out.c_str(), stdout);
    std::fflush(stdout);
  }
};

Result<Json> Overview(Session& session) {
  Result<Json> answer = session.Ask("overview");
  // A daemon that has no such verb is asked for what it has.
  if (!answer && answer.error().code() == Code::kInvalid) return OverviewOf(session);
  return answer;
}

Status RunTop(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(Json now, Overview(session));
  if (PrintedJson(arguments, now)) return {};
  if (arguments.Flag("once") || !IsTerminal(STDOUT_FILENO)) {
    std::fputs(TopFrame(now, std::nullopt, 0, 0).c_str(), stdout);
    return {};
  }
  TRY_ASSIGN(const uint64_t every_s,
             SecondsOf(arguments.Text("--every").empty() ? "1" : arguments.Text("--every"), "--every"));
  const Screen screen;
  std::optional<Json> before;
  auto then = Steady::now();
  double passed_s = 0;
  while (is_over == 0) {
    screen.Show(TopFrame(now, before, passed_s, SizeOfTerminal().lines - 1));
    for (uint64_t i = 0; i < std::max<uint64_t>(every_s, 1) * 10 && is_over == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (is_over != 0) break;
    TRY_ASSIGN(Json next, Overview(session));
    before = std::move(now);
    now = std::move(next);
    const auto time = Steady::now();
    passed_s = std::chrono::duration<double>(time - then).count();
    then = time;
  }
  return {};
}

}  // namespace

Verb TopVerb() {
  return {"top",
          "The daemon as it works: look-ups, compiles, store, cluster and the newest misses",
          {{"once", "One frame, as where there is no terminal", Parameter::kFlag},
           {"--every", "How often it looks (1s)", Parameter::kOptional, values::kTime}},
          true,
          RunTop};
}

}  // namespace ingot::tools
