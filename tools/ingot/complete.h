// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/lib/connect/connection.h"

namespace CLI {
class App;
}

namespace ingot::tools {

/// One word that may stand where the user is. `text` ":files" asks the shell for its own completion of paths.
struct Candidate {
  std::string text;
  std::string help;
};

/// Words of a kind ("KEY", "FUNCTION") that begin with `prefix` and are stored.
using WordSource = std::function<std::vector<Candidate>(const std::string& kind, const std::string& prefix)>;

/// What may stand in place of the last of `words`, which follow the program's name: verbs, options, and what the type
/// of an argument says ("KEY", "FILE", "a|b"). The parser itself is the only list of them.
std::vector<Candidate> Complete(const CLI::App& app, const std::vector<std::string>& words, const WordSource& stored);

/// Keys and functions of the daemon; none where there is none, or it takes long.
std::vector<Candidate> StoredWords(const client::ConnectionOptions& options, const std::string& kind,
                                   const std::string& prefix);
/// What a command line that is being written says of the daemon's place.
void PlacesIn(const std::vector<std::string>& words, std::string& store_dir, std::string& socket);

/// What the shell reads: it asks `program __complete` for everything. kInvalid: there are bash, zsh and fish.
Result<std::string> CompletionScript(const std::string& shell, const std::string& program);

}  // namespace ingot::tools
