// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/lib/connection.h"

namespace ingot::tools {

using Json = nlohmann::ordered_json;

/// What was written on the command line behind the verb.
struct Arguments {
  std::map<std::string, std::string> texts;  ///< "key" -> "3f2a"
  std::set<std::string> flags;               ///< "recompile"
  bool json = false;

  std::string Text(const std::string& name) const;
  bool Flag(const std::string& name) const { return flags.contains(name); }
};

/// What a verb works with. The daemon is reached on first use.
class Session {
 public:
  explicit Session(client::ConnectionOptions options) : options_(std::move(options)) {}

  /// Answer of the daemon's verb. kUnavailable, with what to do: there is none, and the verb starts none.
  Result<Json> Ask(const std::string& verb, const Json& arguments = Json::object());
  Result<client::Connection*> Connect();
  client::ConnectionOptions& options() { return options_; }

 private:
  client::ConnectionOptions options_;
  std::unique_ptr<client::Connection> connection_;
};

/// One argument of a verb.
struct Parameter {
  std::string name;
  std::string help;
  enum Kind { kRequired, kOptional, kFlag } kind = kRequired;
};

/// One verb: what it takes and what it does. `run` prints the answer to stdout.
struct Verb {
  std::string name;
  std::string help;
  std::vector<Parameter> parameters;
  bool reads = true;  ///< Takes --json.
  Status (*run)(Session&, const Arguments&);
  /// Starts a daemon where there is none: what it does needs one, and changes or compiles something. Whoever only
  /// looks finds things as they are.
  bool starts = false;
};

/// Prints `answer` as one JSON document and returns true when --json was given.
bool PrintedJson(const Arguments& arguments, const Json& answer);

// One function for each file in verbs/.
Verb StatsVerb();
Verb ListVerb();
Verb InspectVerb();
Verb WhyMissVerb();
Verb RanksVerb();
Verb DiffVerb();
Verb TextVerb();
Verb VerifyVerb();
Verb WarmVerb();
Verb GcVerb();
Verb EvictVerb();
Verb PinVerb();
Verb UnpinVerb();
Verb RetryVerb();
Verb DoctorVerb();
Verb ConfigVerb();
/// `ingot compile ...`: becomes the program ingot-compile, which reads the arguments; returns only
/// when that cannot be started.
Status RunCompile(const std::vector<std::string>& arguments);
/// `ingot daemon start|stop|status|log|run`.
std::vector<Verb> DaemonVerbs();
/// `ingot trust keygen|add|list|revoke|rotate|show|check`.
std::vector<Verb> TrustVerbs();
/// `ingot token new|list|revoke`.
std::vector<Verb> TokenVerbs();

}  // namespace ingot::tools
