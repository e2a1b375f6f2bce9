// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/lib/connect/connection.h"

namespace ingot::tools {

using Json = nlohmann::ordered_json;

/// What was written on the command line behind the verb.
struct Arguments {
  std::map<std::string, std::string> texts;              ///< "key" -> "3f2a"
  std::map<std::string, std::vector<std::string>> lists;  ///< "keys" -> "3f2a", "77"
  std::set<std::string> flags;                           ///< "recompile"
  bool json = false;

  std::string Text(const std::string& name) const;
  /// A number, `otherwise` where nothing was said. kInvalid names the option.
  Result<uint64_t> Number(const std::string& name, uint64_t otherwise) const;
  std::vector<std::string> List(const std::string& name) const;
  bool Flag(const std::string& name) const { return flags.contains(name); }
};

/// What a verb works with. The daemon is reached on first use.
class Session {
 public:
  explicit Session(client::ConnectionOptions options) : options_(std::move(options)) {}

  /// Answer of the daemon's verb. kUnavailable, with what to do: there is none, and the verb starts none.
  Result<Json> Ask(const std::string& verb, const Json& arguments = Json::object(), const std::vector<int>& files = {});
  /// As Ask, for what takes long: says on a terminal how far it is. `files` are descriptors of what it reads or writes.
  Result<Json> AskLong(const std::string& verb, Json arguments, const std::vector<int>& files = {});
  Result<client::Connection*> Connect();
  client::ConnectionOptions& options() { return options_; }

 private:
  client::ConnectionOptions options_;
  std::unique_ptr<client::Connection> connection_;
};

/// What an argument stands for: shown in the help, and what a shell offers in its place.
namespace values {
inline constexpr const char* kText = "TEXT";
inline constexpr const char* kKey = "KEY";
inline constexpr const char* kFunction = "FUNCTION";
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kNumber = "N";
inline constexpr const char* kTime = "TIME";
}  // namespace values

/// One argument of a verb. A name that begins with '-' is an option's, "-o,--output" with a short form; arguments are
/// found under the long one ("--output"), flags without dashes ("recompile").
struct Parameter {
  std::string name;
  std::string help;
  enum Kind { kRequired, kOptional, kFlag, kList } kind = kRequired;
  /// One of `values`, or all that may be said: "used|created|size".
  std::string value = values::kText;
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

/// "90 s", "15m", "2h", "3d", or seconds: how long. kInvalid names the option.
Result<uint64_t> SecondsOf(const std::string& text, const std::string& option);

/// Prints `answer` as one JSON document and returns true when --json was given.
bool PrintedJson(const Arguments& arguments, const Json& answer);

/// Prints the answer of `doctor`, or of anything that answers like it; kUnavailable when something is not well.
Status PrintChecks(const Arguments& arguments, const Json& answer);

// One function for each file in verbs/.
Verb StatsVerb();
Verb ListVerb();
Verb InspectVerb();
Verb WhyMissVerb();
Verb RanksVerb();
Verb DiffVerb();
Verb TextVerb();
Verb VerifyVerb();
Verb SignVerb();
Verb WarmVerb();
Verb GcVerb();
Verb EvictVerb();
Verb PinVerb();
Verb UnpinVerb();
Verb TuneVerb();
Verb RetryVerb();
Verb DoctorVerb();
Verb ConfigVerb();
Verb ExportVerb();
Verb ImportVerb();
Verb ManifestVerb();
Verb PrefetchVerb();
Verb SyncVerb();
Verb TopVerb();
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
