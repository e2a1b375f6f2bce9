// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "client/lib/connect/start_daemon.h"
#include "tools/ingot/daemon_view.h"
#include "tools/ingot/log_view.h"
#include "tools/ingot/terminal.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status PrintStatus(const Arguments& arguments, const Json& status) {
  if (PrintedJson(arguments, status)) return {};
  for (const auto& [name, value] : status.items()) {
    // What is more than one value is shown below, as `ingot top` shows it.
    if (value.is_structured() || name == "flights" || (name == "cluster" && value.is_null())) continue;
    if (value.is_string() && value.get_ref<const std::string&>().empty()) continue;
    fmt::print("{:<20} {}\n", name, value.is_string() ? Printable(value.get<std::string>()) : value.dump());
  }
  fmt::print("{}{}", ClusterText(status), FlightsText(status));
  return {};
}

Status ShowStatus(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json status, session.Ask("status"));
  return PrintStatus(arguments, status);
}

/// Returns once the process has given up its locks.
Status Stop(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(client::Connection* const connection, session.Connect());
  const uint32_t pid = connection->daemon_pid();
  // With "stop" the daemon may be gone before its answer is written.
  const auto answer = connection->Query(arguments.Flag("now") ? "stop" : "drain");
  if (!answer && answer.error().code() != Code::kUnavailable) return answer.error();
  const proto::Endpoint& endpoint = connection->endpoint();
  for (const std::string& path : {endpoint.lock_path(), proto::SocketLockPath(connection->daemon_socket())}) {
    while (const auto holder = proto::LockFile::HolderOf(path)) {
      if (holder->pid != pid) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  fmt::print("stopped process {}\n", pid);
  return {};
}

/// Where the daemon logs, or the last one did.
Result<Json> FindLog(Session& session) {
  Result<Json> answer = session.Ask("log");
  if (answer || answer.error().code() != Code::kUnavailable) return answer;
  TRY_ASSIGN(const proto::Endpoint endpoint,
             proto::ResolveEndpoint(session.options().store_dir, session.options().socket));
  const std::string last = endpoint.home + "/ingotd.log";
  if (access(last.c_str(), R_OK) != 0) return answer;
  return Json{{"file", last}, {"level", ""}};
}

Status ShowLog(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, FindLog(session));
  if (PrintedJson(arguments, answer)) return {};
  const std::string path = answer["file"].get<std::string>();
  if (path.empty()) return Error(Code::kNotFound, "the daemon logs to its standard error");
  LogView view;
  view.follow = arguments.Flag("follow");
  view.level = arguments.Text("--level");
  // Whoever follows wants what comes; of what was the end is enough to begin with.
  TRY_ASSIGN(view.last, arguments.Number("--lines", view.follow ? 10 : LogView::kAll));
  return ShowLogFile(path, view);
}

/// Becomes the daemon, in the foreground.
Status RunHere(Session& session, const Arguments& /*given*/) {
  TRY_ASSIGN(const std::string program, client::FindDaemon(session.options().daemon));
  TRY_ASSIGN(const proto::Endpoint endpoint,
             proto::ResolveEndpoint(session.options().store_dir, session.options().socket));
  std::vector<const char*> arguments = {program.c_str(), "--store-dir", endpoint.store_dir.c_str()};
  if (!session.options().socket.empty()) arguments.insert(arguments.end(), {"--socket", endpoint.socket.c_str()});
  arguments.push_back(nullptr);
  execv(program.c_str(), const_cast<char**>(arguments.data()));
  return Error(Code::kUnavailable, fmt::format("run {}: {}", program, std::strerror(errno)));
}

}  // namespace

std::vector<Verb> DaemonVerbs() {
  return {{"start", "Starts the daemon if it does not run", {}, true, ShowStatus, true},
          {"stop",
           "Stops the daemon once it has answered what it has",
           {{"now", "Do not wait for compiles in progress", Parameter::kFlag}},
           false,
           Stop},
          {"status", "What the running daemon is", {}, true, ShowStatus},
          {"log",
           "Prints the daemon's log",
           {{"-f,--follow", "Goes on with what comes, also in the file after this one", Parameter::kFlag},
            {"-n,--lines", "Only the last lines", Parameter::kOptional, values::kNumber},
            {"--level", "Only lines that matter as much", Parameter::kOptional, "debug|info|warn|error"}},
           true,
           ShowLog},
          {"run", "Runs the daemon in the foreground", {}, false, RunHere}};
}

}  // namespace ingot::tools
