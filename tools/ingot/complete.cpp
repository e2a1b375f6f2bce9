// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/complete.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/ingot/terminal.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

constexpr size_t kStoredMax = 200;

/// The verb of that name; nullptr: there is none.
const CLI::App* FindVerb(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

/// The option of that name, of a verb or of those around it.
const CLI::Option* FindOption(const CLI::App* app, const std::string& name) {
  for (; app != nullptr; app = app->get_parent()) {
    if (const CLI::Option* found = app->get_option_no_throw(name)) return found;
  }
  return nullptr;
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// The positional argument that comes after `count` others.
const CLI::Option* Positional(const CLI::App& app, size_t count) {
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    if (count == 0 || option->get_items_expected_max() > 1) return option;
    --count;
  }
  return nullptr;
}

void AddWord(std::vector<Candidate>& out, const std::string& prefix, std::string text, std::string help = "") {
  if (text.starts_with(prefix)) out.push_back({std::move(text), std::move(help)});
}

std::vector<Candidate> ValuesOf(const CLI::Option& option, const std::string& prefix, const WordSource& stored) {
  const std::string kind = option.get_type_name();
  if (kind == values::kFile) return {{":files", ""}};
  if (kind == values::kKey || kind == values::kFunction) return stored(kind, prefix);
  std::vector<Candidate> out;
  if (kind.find('|') == kind.npos) return out;
  for (size_t at = 0; at <= kind.size();) {
    const size_t end = std::min(kind.find('|', at), kind.size());
    AddWord(out, prefix, kind.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

void AddOptions(const CLI::App* app, const std::string& prefix, std::vector<Candidate>& out) {
  std::set<std::string> seen;
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        if (seen.insert(name).second) AddWord(out, prefix, "--" + name, option->get_description());
      }
    }
  }
}

}  // namespace

std::vector<Candidate> Complete(const CLI::App& app, const std::vector<std::string>& words, const WordSource& stored) {
  const CLI::App* verb = &app;
  size_t positionals = 0;
  const CLI::Option* waits = nullptr;  // An option whose value comes next.
  bool only_words = false;             // After "--".
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (waits != nullptr) {
      waits = nullptr;
    } else if (word == "--") {
      only_words = true;
    } else if (!only_words && word.starts_with('-') && word.size() > 1) {
      const CLI::Option* option = FindOption(verb, word.substr(0, word.find('=')));
      if (option != nullptr && TakesValue(*option) && word.find('=') == word.npos) waits = option;
    } else if (const CLI::App* sub = FindVerb(*verb, word); sub != nullptr && positionals == 0) {
      verb = sub;
    } else {
      ++positionals;
    }
  }
  const std::string prefix = words.empty() ? "" : words.back();
  if (waits != nullptr) return ValuesOf(*waits, prefix, stored);
  std::vector<Candidate> out;
  if (!only_words && prefix.starts_with('-')) {
    if (const size_t equals = prefix.find('='); equals != prefix.npos) {
      const CLI::Option* option = FindOption(verb, prefix.substr(0, equals));
      if (option == nullptr) return out;
      for (Candidate& one : ValuesOf(*option, prefix.substr(equals + 1), stored)) {
        if (one.text != ":files") one.text = prefix.substr(0, equals + 1) + one.text;
        out.push_back(std::move(one));
      }
      return out;
    }
    AddOptions(verb, prefix, out);
    return out;
  }
  if (positionals == 0) {
    const auto visible = [](const CLI::App* sub) { return !sub->get_group().empty(); };
    for (const CLI::App* sub : verb->get_subcommands(visible)) {
      AddWord(out, prefix, sub->get_name(), sub->get_description());
    }
  }
  if (verb == &app) return out;
  if (verb->get_name() == "completion") {
    for (const char* shell : {"bash", "zsh", "fish"}) AddWord(out, prefix, shell);
  }
  if (verb->get_name() == "compile") return {{":files", ""}};
  if (const CLI::Option* option = Positional(*verb, positionals)) {
    for (Candidate& one : ValuesOf(*option, prefix, stored)) out.push_back(std::move(one));
  }
  return out;
}

std::vector<Candidate> StoredWords(const client::ConnectionOptions& options, const std::string& kind,
                                   const std::string& prefix) {
  std::vector<Candidate> out;
  auto connection = client::Connection::Open(options);
  if (!connection) return out;
  const auto text = (*connection)->Query("list", Json{{"limit", 2 * kStoredMax}}.dump(), 1000);
  const Json answer = text ? Json::parse(*text, nullptr, /*allow_exceptions=*/false) : Json();
  if (!answer.is_object() || !answer.contains("entries")) return out;
  std::set<std::string> functions;
  for (const Json& entry : answer["entries"]) {
    if (out.size() >= kStoredMax) break;
    const std::string function = Printable(entry.value("function", ""));
    const std::string key = entry.value("key", "").substr(0, 12);
    // Whoever has typed nothing yet knows names rather than digits.
    if (kind == values::kKey && !prefix.empty()) AddWord(out, prefix, key, function);
    const bool is_word = function.find_first_of(" \t\n'\"\\$`") == function.npos;
    if (is_word && !function.empty() && functions.insert(function).second) AddWord(out, prefix, function);
  }
  return out;
}

void PlacesIn(const std::vector<std::string>& words, std::string& store_dir, std::string& socket) {
  for (size_t i = 0; i < words.size(); ++i) {
    for (const auto& [name, place] : {std::pair{std::string("--store"), &store_dir}, {"--socket", &socket}}) {
      if (words[i] == name && i + 2 < words.size()) *place = words[i + 1];
      if (words[i].starts_with(name + "=") && i + 1 < words.size()) *place = words[i].substr(name.size() + 1);
    }
  }
}

Result<std::string> CompletionScript(const std::string& shell, const std::string& program) {
  constexpr const char* kBash = R"(# bash completion of PROGRAM: source <(PROGRAM completion bash)
_PROGRAM() {
  local word help
  COMPREPLY=()
  while IFS=$'\t' read -r word help; do
    if [[ $word == :files ]]; then
      compopt -o default
      COMPREPLY=()
      return
    fi
    COMPREPLY+=("$word")
  done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _PROGRAM PROGRAM
)";
  constexpr const char* kZsh = R"(#compdef PROGRAM
# zsh completion of PROGRAM: source <(PROGRAM completion zsh), or as the file _PROGRAM in a folder of $fpath
_PROGRAM() {
  local line
  local -a found
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      _files
      return
    fi
    line=${line//:/\\:}
    found+=("${line/$'\t'/:}")
  done < <("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe -V 'PROGRAM' found
}
if [[ $funcstack[1] == _PROGRAM ]]; then
  _PROGRAM "$@"
else
  compdef _PROGRAM PROGRAM
fi
)";
  constexpr const char* kFish = R"(# fish completion of PROGRAM: PROGRAM completion fish | source
function __PROGRAM_complete
  set -l last (commandline -ct)
  set -l words (commandline -opc) "$last"
  set -l found ($words[1] __complete -- $words[2..-1] 2>/dev/null)
  if test "$found[1]" = :files
    __fish_complete_path "$last"
  else
    printf '%s\n' $found
  end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
)";
  const char* text = shell == "bash" ? kBash : shell == "zsh" ? kZsh : shell == "fish" ? kFish : nullptr;
  if (text == nullptr) {
    return Error(Code::kInvalid, fmt::format("no completion for '{}'; there are bash, zsh and fish", shell));
  }
  constexpr std::string_view kPlaceholder = "PROGRAM";
  std::string out = text;
  for (size_t at = 0; (at = out.find(kPlaceholder, at)) != out.npos;) out.replace(at, kPlaceholder.size(), program);
  return out;
}

}  // namespace ingot::tools
