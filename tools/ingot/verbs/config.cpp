// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/start_program.h"
#include "client/lib/connect/start_daemon.h"
#include "daemon/state/config.h"
#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

/// What a daemon that is started here would use.
Result<Json> OfNone(Session& session) {
  TRY_ASSIGN(daemon::Config config, daemon::ConfigOfEnvironment());
  if (const std::string& store = session.options().store_dir; store != config.store_dir) {
    TRY(daemon::SetField(config, "store_dir", store, "--store"));
  }
  if (const std::string& socket = session.options().socket; socket != config.socket) {
    TRY(daemon::SetField(config, "socket", socket, "--socket"));
  }
  return Json{{"pid", nullptr}, {"fields", daemon::FieldsJson(config)}};
}

/// What a program prints.
Result<std::string> OutputOf(const std::string& path, const std::string& argument) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error(Code::kUnavailable, "no pipe: " + std::string(strerror(errno)));
  Program program;
  program.path = path;
  program.arguments = {argument};
  program.descriptors = {STDIN_FILENO, ends[1], STDERR_FILENO};
  // Whoever interrupts this program means that one as well.
  program.has_own_session = false;
  const Result<pid_t> pid = StartProgram(program);
  close(ends[1]);
  std::string out;
  char piece[4096];
  for (ssize_t got; pid && (got = read(ends[0], piece, sizeof piece)) > 0;) out.append(piece, got);
  close(ends[0]);
  if (!pid) return pid.error();
  waitpid(*pid, nullptr, 0);
  return out;
}

/// The tiers are tried by the program that would use them.
Status CheckConfig(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const std::string daemon, client::FindDaemon(session.options().daemon));
  TRY_ASSIGN(const std::string out, OutputOf(daemon, "--check"));
  const Json answer = Json::parse(out, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return Error(Code::kInternal, daemon + " --check says nothing of the tiers");
  return PrintChecks(arguments, answer);
}

Status RunConfig(Session& session, const Arguments& arguments) {
  if (const std::string what = arguments.Text("check"); !what.empty()) {
    if (what == "check") return CheckConfig(session, arguments);
    return Error(Code::kInvalid, fmt::format("config {}: there is only `config`, and `config check`", what));
  }
  Result<Json> answer = session.Ask("config");
  if (!answer && answer.error().code() == Code::kUnavailable) answer = OfNone(session);
  if (!answer) return std::move(answer).error();
  if (PrintedJson(arguments, *answer)) return {};
  if ((*answer)["pid"].is_null()) std::puts("no daemon runs; one that is started here would use:");
  Table table({"field", "value", "from", "default", "meaning"});
  for (const Json& field : (*answer)["fields"]) {
    table.Add({field["name"].get<std::string>(), field["value"].get<std::string>(), field["source"].get<std::string>(),
               field["default"].get<std::string>(), field["meaning"].get<std::string>()});
  }
  table.Print();
  return {};
}

}  // namespace

Verb ConfigVerb() {
  return {"config",
          "Every setting and limit of the daemon, and where it comes from",
          {{"check", "The word check: try the tiers of the cluster, and say what is wrong", Parameter::kOptional}},
          true,
          RunConfig};
}

}  // namespace ingot::tools
