// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/queries.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>

#include "base/metrics.h"
#include "daemon/admin/verbs.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

/// A verb, what it waits for, and who may ask it.
struct Offered {
  Verb verb;
  Pace pace;
  Right right = Right::kAdminister;
  /// Arguments that name what is stored. Who only uses names things by whole digests, which he has from what he asked
  /// for himself: he lists and guesses nothing.
  std::vector<const char*> names = {};
};

/// All that can be asked. What is not said to be for use is for who administers.
const std::map<std::string, Offered>& Verbs() {
  static const std::map<std::string, Offered> verbs = {
      {"status", {StatusVerb, Pace::kMemory, Right::kUse}},
      {"progress", {ProgressVerb, Pace::kMemory, Right::kUse}},
      {"why-miss", {WhyMissVerb, Pace::kStore, Right::kUse, {"key"}}},
      {"inspect", {InspectVerb, Pace::kStore, Right::kUse, {"key"}}},
      {"text", {TextVerb, Pace::kStore, Right::kUse, {"graph"}}},
      {"diff", {DiffVerb, Pace::kStore, Right::kUse, {"a", "b"}}},
      {"quarantine", {QuarantineVerb, Pace::kStore, Right::kUse, {"artifact"}}},
      {"split", {SplitVerb, Pace::kStore, Right::kUse}},
      {"noted", {NotedVerb, Pace::kStore, Right::kUse}},
      {"agreed", {AgreedVerb, Pace::kStore, Right::kUse, {"artifact"}}},
      {"stats", {StatsVerb, Pace::kMemory}},
      {"overview", {OverviewVerb, Pace::kStore}},
      {"metrics", {MetricsVerb, Pace::kStore}},
      {"config", {ConfigVerb, Pace::kMemory}},
      {"log", {LogVerb, Pace::kMemory}},
      {"load", {LoadVerb, Pace::kMemory}},
      {"list", {ListVerb, Pace::kStore}},
      {"doctor", {DoctorVerb, Pace::kStore}},
      {"ranks", {RanksVerb, Pace::kStore}},
      {"evict", {EvictVerb, Pace::kStore}},
      {"pin", {PinVerb, Pace::kStore}},
      {"unpin", {UnpinVerb, Pace::kStore}},
      {"retry", {RetryVerb, Pace::kStore}},
      {"rival", {RivalVerb, Pace::kStore}},
      {"manifest", {ManifestVerb, Pace::kStore}},
      {"outbox", {OutboxVerb, Pace::kStore}},
      {"verify", {VerifyVerb, Pace::kUpkeep}},
      {"gc", {GcVerb, Pace::kUpkeep}},
      {"recall", {RecallVerb, Pace::kUpkeep}},
      {"export", {ExportVerb, Pace::kUpkeep}},
      {"import", {ImportVerb, Pace::kUpkeep}},
      {"prefetch", {PrefetchVerb, Pace::kUpkeep}},
      {"sync", {SyncVerb, Pace::kUpkeep}},
      {"tune", {TuneVerb, Pace::kUpkeep}},
      {"contests", {ContestsVerb, Pace::kUpkeep}},
  };
  return verbs;
}

Error NotForUse(const std::string& what, const QueryHooks& hooks) {
  return Error(Code::kDenied,
               fmt::format("{} is for who administers the daemon: run it where {} can be reached, as user {}", what,
                           hooks.admin_socket.empty() ? "its own socket" : hooks.admin_socket, geteuid()));
}

/// Whether this caller may ask this.
Status CheckRight(const std::string& verb, const Offered& offered, const Json& arguments, const Caller& caller,
                  const QueryHooks& hooks) {
  if (caller.right == Right::kAdminister) return {};
  if (offered.right == Right::kAdminister) return NotForUse("'" + verb + "'", hooks);
  for (const char* name : offered.names) {
    const auto at = arguments.find(name);
    if (at != arguments.end() && at->is_string() && Digest::FromHex(at->get<std::string>())) continue;
    return NotForUse(fmt::format("'{}' of what no whole digest names ('{}')", verb, name), hooks);
  }
  return {};
}

}  // namespace

std::string VerbCall::Text(const char* name) const {
  const auto at = arguments.find(name);
  return at != arguments.end() && at->is_string() ? at->get<std::string>() : std::string();
}

bool VerbCall::Flag(const char* name) const {
  const auto at = arguments.find(name);
  return at != arguments.end() && at->is_boolean() && at->get<bool>();
}

uint64_t VerbCall::Number(const char* name, uint64_t otherwise) const {
  const auto at = arguments.find(name);
  return at != arguments.end() && at->is_number_unsigned() ? at->get<uint64_t>() : otherwise;
}

bool VerbCall::Sees(const cache::Key& key) const {
  return caller.right == Right::kAdminister || TenantOf(key) == caller.tenant;
}

Result<UniqueFd> VerbCall::File() const {
  if (caller.files.empty() || !caller.files.front()) {
    return Error(Code::kInvalid, "no file came with the request: whoever asks opens it and sends its descriptor");
  }
  return std::move(caller.files.front());
}

Task<std::string> Queries::Run(std::string verb, std::string arguments, Until until, Caller caller) {
  // What it reads may be of them.
  core_.uses.Apply();
  Json parsed = arguments.empty() ? Json::object() : Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    co_return Error(Code::kInvalid, fmt::format("the arguments of '{}' are not a JSON object", verb));
  }
  if (verb == "drain" || verb == "stop") {
    if (caller.right != Right::kAdminister) co_return NotForUse("'" + verb + "'", hooks_);
    hooks_.stop(verb == "drain");
    co_return std::string("{}");
  }
  const auto at = Verbs().find(verb);
  if (at == Verbs().end()) {
    co_return Error(Code::kInvalid, fmt::format("no verb '{}'; this daemon may be older", verb));
  }
  CO_TRY(CheckRight(verb, at->second, parsed, caller, hooks_));
  until.stop = hooks_.stopping;
  const VerbCall call{core_, hooks_, parsed, until, caller};
  CO_TRY_ASSIGN(const Json answer, co_await at->second.verb(call));
  // Names come from users' code and need not be UTF-8.
  co_return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Queries::VerbOf(Bytes body) {
  const auto* message = proto::ReadMessage<proto::Query>(body);
  return message == nullptr ? std::string() : message->verb()->str();
}

Pace Queries::PaceOf(Bytes body) {
  const auto at = Verbs().find(VerbOf(body));
  // What has no entry waits for nothing: it is refused, or ends the daemon.
  return at == Verbs().end() ? Pace::kMemory : at->second.pace;
}

boost::asio::awaitable<Reply> Queries::Answer(Buffer body, Until until, Caller caller) {
  const auto* message = proto::ReadMessage<proto::Query>(body);
  if (message == nullptr) {
    GlobalMetrics().Add(Counter::bad_requests);
    co_return ErrorReplyOf(Error(Code::kCorrupt, "the query does not verify"));
  }
  const std::string arguments = message->json() == nullptr ? "" : message->json()->str();
  const Result<std::string> answer = co_await Run(message->verb()->str(), arguments, until, std::move(caller));
  if (!answer) co_return ErrorReplyOf(answer.error());
  proto::QueryReplyT reply;
  reply.json = *answer;
  co_return ReplyOf<proto::QueryReply>(proto::MessageType::QueryReply, reply);
}

}  // namespace ingot::daemon
