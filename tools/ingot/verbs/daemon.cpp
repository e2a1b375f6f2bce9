// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "client/lib/start_daemon.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

Status PrintStatus(const Arguments& arguments, const Json& status) {
  if (PrintedJson(arguments, status)) return {};
  for (const auto& [name, value] : status.items()) {
    if (value.is_string() && value.get_ref<const std::string&>().empty()) continue;
    fmt::print("{:<20} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return {};
}

Status Start(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json status, session.Ask("status"));
  return PrintStatus(arguments, status);
}

Status ShowStatus(Session& session, const Arguments& arguments) {
  session.options().start = false;
  session.options().any_build = true;
  return Start(session, arguments);
}

/// Returns once the process has given up its lock.
Status Stop(Session& session, const Arguments& arguments) {
  session.options().start = false;
  session.options().any_build = true;
  TRY_ASSIGN(client::Connection* const connection, session.Connect());
  const uint32_t pid = connection->daemon_pid();
  // With "stop" the daemon may be gone before its answer is written.
  const auto answer = connection->Query(arguments.Flag("now") ? "stop" : "drain");
  if (!answer && answer.error().code() != Code::kUnavailable) return answer.error();
  const std::string path = connection->endpoint().lock_path();
  const proto::UniqueFd lock(open(path.c_str(), O_RDWR | O_CLOEXEC));
  while (lock && flock(lock.get(), LOCK_SH) != 0 && errno == EINTR) {
  }
  fmt::print("stopped process {}\n", pid);
  return {};
}

Status ShowLog(Session& session, const Arguments& arguments) {
  session.options().start = false;
  session.options().any_build = true;
  TRY_ASSIGN(const Json answer, session.Ask("log"));
  if (PrintedJson(arguments, answer)) return {};
  const std::string path = answer["file"].get<std::string>();
  if (path.empty()) return Error(Code::kNotFound, "the daemon logs to its standard error");
  std::ifstream file(path);
  if (!file) return Error(Code::kNotFound, fmt::format("cannot read {}", path));
  std::cout << file.rdbuf();
  return {};
}

/// Becomes the daemon, in the foreground.
Status RunHere(Session& session, const Arguments& /*arguments*/) {
  TRY_ASSIGN(const std::string program, client::FindDaemon(session.options().daemon));
  TRY_ASSIGN(const proto::Endpoint endpoint,
             proto::ResolveEndpoint(session.options().store_dir, session.options().socket));
  execl(program.c_str(), program.c_str(), "--store-dir", endpoint.store_dir.c_str(), "--socket",
        endpoint.socket.c_str(), nullptr);
  return Error(Code::kUnavailable, fmt::format("run {}: {}", program, std::strerror(errno)));
}

}  // namespace

std::vector<Verb> DaemonVerbs() {
  return {{"start", "Starts the daemon if it does not run", {}, true, Start},
          {"stop",
           "Stops the daemon once it has answered what it has",
           {{"now", "Do not wait for compiles in progress", Parameter::kFlag}},
           false,
           Stop},
          {"status", "What the running daemon is", {}, true, ShowStatus},
          {"log", "Prints the daemon's log", {}, true, ShowLog},
          {"run", "Runs the daemon in the foreground", {}, false, RunHere}};
}

}  // namespace ingot::tools
