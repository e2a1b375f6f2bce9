// SPDX-License-Identifier: Apache-2.0
// ingot: looks into and steers the daemon of one store. Verbs are in verbs/, one a file.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <deque>

#include "daemon/config.h"
#include "proto/endpoint.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

/// A verb with the place its arguments are parsed into.
struct Parsed {
  Verb verb;
  Arguments arguments;
  std::map<std::string, bool> flags;
};

void AddVerb(CLI::App& app, Verb verb, std::deque<Parsed>& all, const Parsed*& chosen) {
  Parsed& parsed = all.emplace_back(Parsed{std::move(verb), {}, {}});
  CLI::App* sub = app.add_subcommand(parsed.verb.name, parsed.verb.help);
  for (const Parameter& parameter : parsed.verb.parameters) {
    if (parameter.kind == Parameter::kFlag) {
      sub->add_flag("--" + parameter.name, parsed.flags[parameter.name], parameter.help);
    } else {
      sub->add_option(parameter.name, parsed.arguments.texts[parameter.name], parameter.help)
          ->required(parameter.kind == Parameter::kRequired);
    }
  }
  sub->fallthrough();
  if (parsed.verb.reads) sub->add_flag("--json", parsed.arguments.json, "Print JSON");
  sub->callback([&parsed, &chosen] {
    for (const auto& [name, given] : parsed.flags) {
      if (given) parsed.arguments.flags.insert(name);
    }
    chosen = &parsed;
  });
}

/// Store and socket as the configuration file says, where neither arguments nor the environment do.
Status FindPlaces(client::ConnectionOptions& options) {
  TRY_ASSIGN(const daemon::Config config, daemon::ConfigOfEnvironment());
  if (options.store_dir.empty()) options.store_dir = config.store_dir;
  if (options.socket.empty()) options.socket = config.socket;
  return {};
}

int Main(int count, char** values) {
  CLI::App app("Ingot: compiled PyTorch graphs, kept and served by a daemon");
  app.set_version_flag("--version", std::string(proto::Version()));
  app.require_subcommand(1);
  client::ConnectionOptions options;
  options.kind = "cli";
  app.add_option("--store", options.store_dir, "Directory of the store (INGOT_STORE_DIR)");
  app.add_option("--socket", options.socket, "Socket of the daemon (INGOT_SOCKET)");
  std::deque<Parsed> parsed;
  const Parsed* chosen = nullptr;
  for (Verb verb : {StatsVerb(), ListVerb(), InspectVerb(), WhyMissVerb(), RanksVerb(), DiffVerb(), TextVerb(),
                    VerifyVerb(), WarmVerb(), GcVerb(), EvictVerb(), PinVerb(), UnpinVerb(),
                    RetryVerb(), DoctorVerb(), ConfigVerb()}) {
    AddVerb(app, std::move(verb), parsed, chosen);
  }
  CLI::App* daemon = app.add_subcommand("daemon", "Start, stop and watch the daemon");
  daemon->require_subcommand(1)->fallthrough();
  for (Verb verb : DaemonVerbs()) AddVerb(*daemon, std::move(verb), parsed, chosen);
  CLI::App* trust = app.add_subcommand("trust", "Whose artifacts may be served here: keys, domains, revocations");
  trust->require_subcommand(1);
  for (Verb verb : TrustVerbs()) AddVerb(*trust, std::move(verb), parsed, chosen);
  CLI::App* token = app.add_subcommand("token", "Whom a serving daemon lets in");
  token->require_subcommand(1);
  for (Verb verb : TokenVerbs()) AddVerb(*token, std::move(verb), parsed, chosen);
  CLI::App* compile = app.add_subcommand("compile", "Compiles an archive of torch.export without Python");
  compile->prefix_command()->set_help_flag();
  try {
    app.parse(count, values);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
    if (error.get_exit_code() != 0 && !rest.empty()) {
      fmt::print(stderr, "ingot: invalid: unexpected '{}'; `ingot --help` lists the verbs\n",
                 fmt::join(rest, " "));
      return static_cast<int>(Code::kInvalid);
    }
    // 0 for --help and --version; a wrong command line is "invalid" like everywhere else.
    return app.exit(error) == 0 ? 0 : static_cast<int>(Code::kInvalid);
  }
  if (chosen != nullptr) {
    options.start = chosen->verb.starts;
    if (Status placed = FindPlaces(options); !placed) {
      fmt::print(stderr, "ingot: {}\n", placed.error().ToText());
      return static_cast<int>(placed.error().code());
    }
  }
  Session session(options);
  const Status done =
      compile->parsed() ? RunCompile(compile->remaining()) : chosen->verb.run(session, chosen->arguments);
  if (done) return 0;
  fmt::print(stderr, "ingot: {}\n", done.error().ToText());
  return static_cast<int>(done.error().code());
}

}  // namespace
}  // namespace ingot::tools

int main(int count, char** values) { return ingot::tools::Main(count, values); }
