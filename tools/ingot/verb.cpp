// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/verb.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "base/mutex.h"
#include "tools/ingot/terminal.h"

namespace ingot::tools {

std::string Arguments::Text(const std::string& name) const {
  const auto at = texts.find(name);
  return at == texts.end() ? std::string() : at->second;
}

Result<uint64_t> Arguments::Number(const std::string& name, uint64_t otherwise) const {
  const std::string text = Text(name);
  if (text.empty()) return otherwise;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return Error(Code::kInvalid, fmt::format("{} {}: a whole number is wanted", name, text));
}

std::vector<std::string> Arguments::List(const std::string& name) const {
  const auto at = lists.find(name);
  return at == lists.end() ? std::vector<std::string>() : at->second;
}

Result<uint64_t> SecondsOf(const std::string& text, const std::string& option) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  std::erase(unit, ' ');
  for (const auto& [name, seconds] : {std::pair<const char*, uint64_t>{"", 1},
                                      {"s", 1},
                                      {"m", 60},
                                      {"min", 60},
                                      {"h", 3600},
                                      {"d", 86400},
                                      {"w", 7 * 86400}}) {
    if (error == std::errc() && unit == name && value < (1ull << 40)) return value * seconds;
  }
  return Error(Code::kInvalid, fmt::format("{} {}: say how long, as 90s, 15m, 2h or 3d", option, text));
}

Result<Json> Session::AskLong(const std::string& verb, Json arguments, const std::vector<int>& files) {
  if (!IsTerminal(STDERR_FILENO)) return Ask(verb, arguments, files);
  TRY_ASSIGN(client::Connection* const connection, Connect());
  std::random_device random;
  const std::string name = fmt::format("{}-{:08x}{:08x}", getpid(), random(), random());
  arguments["progress"] = name;
  Mutex mutex;
  CondVar over;
  bool is_over = false;
  // Answers may come in any order: the daemon says how far it is before it is done.
  std::thread watcher([&] {
    StatusLine line;
    MutexLock lock(mutex);
    while (true) {
      if (!is_over) over.WaitForMs(mutex, 200);
      if (is_over) return;
      const MutexUnlock unlock(mutex);
      const auto text = connection->Query("progress", Json{{"progress", name}}.dump(), 2000);
      const Json state = text ? Json::parse(*text, nullptr, false) : Json();
      if (state.is_object() && state.contains("what")) {
        const auto done = state.value("done", uint64_t{0}), all = state.value("all", uint64_t{0});
        line.Show(fmt::format("{}  {}", state.value("what", ""), BarText(done, all)));
      }
    }
  });
  Result<Json> answer = Ask(verb, arguments, files);
  {
    MutexLock lock(mutex);
    is_over = true;
  }
  over.NotifyOne();
  watcher.join();
  return answer;
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

Result<Json> Session::Ask(const std::string& verb, const Json& arguments, const std::vector<int>& files) {
  TRY_ASSIGN(client::Connection* const connection, Connect());
  TRY_ASSIGN(const std::string text, connection->Query(verb, arguments.dump(), -1, files));
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
