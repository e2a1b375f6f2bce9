// SPDX-License-Identifier: Apache-2.0
// ingot: looks into and steers the daemon of one store. Verbs are in verbs/, one a file.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <deque>

#include "daemon/state/config.h"
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
  // Whoever says something wrong hears so before anything is asked or started.
  if (parameter.value == values::kNumber || parameter.value == values::kTime) {
    option->check([name, is_time = parameter.value == values::kTime](const std::string& text) {
      Arguments one;
      one.texts[name] = text;
      const Result<uint64_t> good = is_time ? SecondsOf(text, name) : one.Number(name, 0);
      // The parser says the name in front of it.
      return good ? std::string() : good.error().message().substr(name.size() + 1);
    });
  }
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
  std::fflush(stdout);  // What it is about stands above it, also in one file.
  fmt::print(stderr, "ingot: {}\n", error.ToText());
  return static_cast<int>(error.code());
}

/// `ingot completion SHELL`: what a shell reads to complete our command lines.
int CompletionMain(const CLI::App& app, const std::vector<std::string>& words) {
  const Result<std::string> script = CompletionScript(words.empty() ? "" : words.front(), app.get_name());
  if (words.size() != 1) return Failed(Error(Code::kInvalid, "name one shell: bash, zsh or fish"));
  if (!script) return Failed(script.error());
  std::fputs(script->c_str(), stdout);
  return 0;
}

/// What is wrong with a command line, in one line as all errors.
Error WrongLine(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  // The verb or group that was reached.
  const CLI::App* at = &app;
  std::string line = app.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    line += " " + at->get_name();
  }
  if (!rest.empty()) {
    const bool is_verb = !at->get_subcommands({}).empty() && !rest.front().starts_with('-');
    return Error(Code::kInvalid,
                 is_verb ? fmt::format("no verb '{}'; `{} --help` lists them", rest.front(), line)
                         : fmt::format("unexpected '{}'; `{} --help` says what it takes", fmt::join(rest, " "), line));
  }
  const bool has_verbs = !at->get_subcommands({}).empty();
  return Error(Code::kInvalid, has_verbs && at->get_require_subcommand_min() != 0
                                   ? fmt::format("name a verb; `{} --help` lists them", line)
                                   : fmt::format("{}; `{} --help` says what it takes", error.what(), line));
}

/// `ingot help VERB...`: as `ingot VERB... --help`.
int HelpMain(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string line = app.get_name();
  for (const std::string& word : words) {
    const auto found = at->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
    if (found.empty()) {
      return Failed(Error(Code::kInvalid, fmt::format("no verb '{}'; `{} --help` lists them", word, line)));
    }
    at = found.front();
    line += " " + word;
  }
  std::fputs(at->help(line.substr(0, line.rfind(' ') == line.npos ? 0 : line.rfind(' '))).c_str(), stdout);
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
  options.administers = true;
  app.add_option("--store", options.store_dir, "Directory of the store (INGOT_STORE_DIR)")->type_name(values::kFile);
  app.add_option("--socket", options.socket, "Socket of the daemon (INGOT_SOCKET)")->type_name(values::kFile);
  std::string color = "auto";
  app.add_option("--color", color, "Colours: on terminals without NO_COLOR, always, or never")
      ->type_name("auto|always|never");
  std::deque<Parsed> parsed;
  const Parsed* chosen = nullptr;
  CLI::App* help = app.add_subcommand("help", "What there is, or what a verb takes");
  help->prefix_command();
  for (Verb verb : {StatsVerb(),  ListVerb(),   InspectVerb(),  WhyMissVerb(),  RanksVerb(),  DiffVerb(),
                    TextVerb(),   VerifyVerb(), SignVerb(),     WarmVerb(),     GcVerb(),     EvictVerb(),
                    PinVerb(),    UnpinVerb(),  TuneVerb(),     RetryVerb(),    DoctorVerb(), ConfigVerb(),
                    ExportVerb(), ImportVerb(), ManifestVerb(), PrefetchVerb(), SyncVerb(),   TopVerb()}) {
    AddVerb(app, std::move(verb), parsed, chosen);
  }
  CLI::App* daemon = app.add_subcommand("daemon", "Start, stop and watch the daemon");
  daemon->require_subcommand(1)->fallthrough();
  for (Verb verb : DaemonVerbs()) AddVerb(*daemon, std::move(verb), parsed, chosen);
  CLI::App* trust = app.add_subcommand("trust", "Whose artifacts may be served here: keys, domains, revocations");
  trust->require_subcommand(1)->fallthrough();
  for (Verb verb : TrustVerbs()) AddVerb(*trust, std::move(verb), parsed, chosen);
  CLI::App* token = app.add_subcommand("token", "Whom a serving daemon lets in");
  token->require_subcommand(1)->fallthrough();
  for (Verb verb : TokenVerbs()) AddVerb(*token, std::move(verb), parsed, chosen);
  CLI::App* compile =
      app.add_subcommand("compile", "Compiles an archive of torch.export or an ONNX model without Python");
  compile->prefix_command()->set_help_flag();
  CLI::App* completion = app.add_subcommand("completion", "Prints what bash, zsh or fish read to complete lines");
  completion->prefix_command();
  if (count > 1 && help->get_name() == given[1]) {
    return HelpMain(app, std::vector<std::string>(given + 2, given + count));
  }
  // Not for the parser: what follows are the words of a line that is not whole.
  if (count > 2 && std::string_view(given[1]) == kComplete) {
    return CompleteMain(app, std::vector<std::string>(given + 2, given + count), std::move(options));
  }
  try {
    app.parse(count, given);
  } catch (const CLI::ParseError& error) {
    // --help and --version.
    if (error.get_exit_code() == 0) return app.exit(error);
    return Failed(WrongLine(app, error));
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
