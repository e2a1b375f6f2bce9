// SPDX-License-Identifier: Apache-2.0
// ingot: looks into and steers the daemon of one store. Verbs are in verbs/, one a file.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <deque>

#include "daemon/config.h"
#include "proto/endpoint.h"
#include "tools/ingot/complete.h"
#include "tools/ingot/terminal.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

/// A verb with the place its arguments are parsed into.
struct Parsed {
  Verb verb;
  Arguments arguments;
  std::map<std::string, bool> flags;
};

/// "--output" of "-o,--output".
std::string LongName(const std::string& name) { return name.substr(name.rfind(',') + 1); }

bool IsChoice(const std::string& value) { return value.find('|') != value.npos; }

void AddParameter(CLI::App& sub, const Parameter& parameter, Parsed& parsed) {
  const std::string name = LongName(parameter.name);
  if (parameter.kind == Parameter::kFlag) {
    const std::string plain = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    sub.add_flag(parameter.name.starts_with('-') ? parameter.name : "--" + parameter.name, parsed.flags[plain],
                 parameter.help);
    return;
  }
  CLI::Option* option = parameter.kind == Parameter::kList
                            ? sub.add_option(parameter.name, parsed.arguments.lists[name], parameter.help)
                            : sub.add_option(parameter.name, parsed.arguments.texts[name], parameter.help);
  option->required(parameter.kind == Parameter::kRequired)->type_name(parameter.value);
  if (!IsChoice(parameter.value)) return;
  option->check([value = parameter.value, name](const std::string& text) {
    const std::string all = "|" + value + "|";
    return text.find('|') == text.npos && all.find("|" + text + "|") != all.npos
               ? std::string()
               : fmt::format("'{}' is not one of {}", text, value);
  });
}

void AddVerb(CLI::App& app, Verb verb, std::deque<Parsed>& all, const Parsed*& chosen) {
  Parsed& parsed = all.emplace_back(Parsed{std::move(verb), {}, {}});
  CLI::App* sub = app.add_subcommand(parsed.verb.name, parsed.verb.help);
  for (const Parameter& parameter : parsed.verb.parameters) AddParameter(*sub, parameter, parsed);
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

int Failed(const Error& error) {
  fmt::print(stderr, "ingot: {}\n", error.ToText());
  return static_cast<int>(error.code());
}

/// `ingot completion SHELL`: what a shell reads to complete our command lines.
int CompletionMain(const CLI::App& app, const std::vector<std::string>& words) {
  const Result<std::string> script = CompletionScript(words.empty() ? "" : words.front(), app.get_name());
  if (!script || words.size() != 1) {
    return Failed(script ? Error(Code::kInvalid, "name one shell: bash, zsh or fish") : script.error());
  }
  std::fputs(script->c_str(), stdout);
  return 0;
}

/// The verb of the scripts that `ingot completion` prints.
constexpr std::string_view kComplete = "__complete";

/// What the shell asks: one line for each word that may stand in place of the last one.
int CompleteMain(const CLI::App& app, std::vector<std::string> words, client::ConnectionOptions options) {
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  options.start = false;
  options.hello_ms_max = 500;
  // Whoever presses a key is told what is known, and waits for nobody.
  if (!FindPlaces(options)) return 0;
  PlacesIn(words, options.store_dir, options.socket);
  const auto stored = [&](const std::string& kind, const std::string& prefix) {
    return StoredWords(options, kind, prefix);
  };
  for (const Candidate& one : Complete(app, words, stored)) {
    fmt::print("{}{}{}\n", one.text, one.help.empty() ? "" : "\t", one.help);
  }
  return 0;
}

int Main(int count, char** given) {
  CLI::App app("Ingot: compiled PyTorch graphs, kept and served by a daemon", "ingot");
  app.set_version_flag("--version", std::string(proto::Version()));
  app.require_subcommand(1);
  client::ConnectionOptions options;
  options.kind = "cli";
  app.add_option("--store", options.store_dir, "Directory of the store (INGOT_STORE_DIR)")->type_name(values::kFile);
  app.add_option("--socket", options.socket, "Socket of the daemon (INGOT_SOCKET)")->type_name(values::kFile);
  std::string color = "auto";
  app.add_option("--color", color, "Colours: on terminals without NO_COLOR, always, or never")
      ->type_name("auto|always|never");
  std::deque<Parsed> parsed;
  const Parsed* chosen = nullptr;
  for (Verb verb : {StatsVerb(), ListVerb(), InspectVerb(), WhyMissVerb(), RanksVerb(), DiffVerb(), TextVerb(),
                    VerifyVerb(), WarmVerb(), GcVerb(), EvictVerb(), PinVerb(), UnpinVerb(),
                    RetryVerb(), DoctorVerb(), ConfigVerb(), ExportVerb(), ImportVerb(), ManifestVerb(),
                    PrefetchVerb(), SyncVerb(), TopVerb()}) {
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
  CLI::App* completion = app.add_subcommand("completion", "Prints what bash, zsh or fish read to complete lines");
  completion->prefix_command();
  // Not for the parser: what follows are the words of a line that is not whole.
  if (count > 2 && std::string_view(given[1]) == kComplete) {
    return CompleteMain(app, std::vector<std::string>(given + 2, given + count), std::move(options));
  }
  try {
    app.parse(count, given);
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
  const Result<ColorMode> mode = ParseColorMode(color);
  if (!mode) return Failed(mode.error());
  SetColorMode(*mode);
  if (completion->parsed()) return CompletionMain(app, completion->remaining());
  if (chosen != nullptr) {
    options.start = chosen->verb.starts;
    if (Status placed = FindPlaces(options); !placed) return Failed(placed.error());
  }
  Session session(options);
  const Status done =
      compile->parsed() ? RunCompile(compile->remaining()) : chosen->verb.run(session, chosen->arguments);
  return done ? 0 : Failed(done.error());
}

}  // namespace
}  // namespace ingot::tools

int main(int count, char** values) { return ingot::tools::Main(count, values); }
