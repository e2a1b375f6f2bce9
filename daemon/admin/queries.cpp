// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/queries.h"

#include <fmt/format.h>

#include <map>

#include "base/metrics.h"
#include "daemon/admin/verbs.h"

namespace ingot::daemon {
namespace {

struct Offered {
  Verb verb;
  Pace pace;
};

const std::map<std::string, Offered>& Verbs() {
  static const std::map<std::string, Offered> verbs = {
      {"status", {StatusVerb, Pace::kMemory}},     {"stats", {StatsVerb, Pace::kMemory}},
      {"overview", {OverviewVerb, Pace::kStore}},  {"metrics", {MetricsVerb, Pace::kStore}},
      {"config", {ConfigVerb, Pace::kMemory}},     {"log", {LogVerb, Pace::kMemory}},
      {"list", {ListVerb, Pace::kStore}},          {"inspect", {InspectVerb, Pace::kStore}},
      {"why-miss", {WhyMissVerb, Pace::kStore}},   {"doctor", {DoctorVerb, Pace::kStore}},
      {"evict", {EvictVerb, Pace::kStore}},        {"pin", {PinVerb, Pace::kStore}},
      {"unpin", {UnpinVerb, Pace::kStore}},        {"retry", {RetryVerb, Pace::kStore}},
      {"text", {TextVerb, Pace::kStore}},          {"diff", {DiffVerb, Pace::kStore}},
      {"ranks", {RanksVerb, Pace::kStore}},        {"quarantine", {QuarantineVerb, Pace::kStore}},
      {"split", {SplitVerb, Pace::kStore}},        {"agreed", {AgreedVerb, Pace::kStore}},
      {"verify", {VerifyVerb, Pace::kUpkeep}},     {"gc", {GcVerb, Pace::kUpkeep}},
      {"recall", {RecallVerb, Pace::kUpkeep}},     {"export", {ExportVerb, Pace::kUpkeep}},
      {"manifest", {ManifestVerb, Pace::kStore}},  {"prefetch", {PrefetchVerb, Pace::kUpkeep}},
      {"sync", {SyncVerb, Pace::kUpkeep}},         {"outbox", {OutboxVerb, Pace::kStore}},
      {"import", {ImportVerb, Pace::kUpkeep}},     {"tune", {TuneVerb, Pace::kUpkeep}},
      {"contests", {ContestsVerb, Pace::kUpkeep}}, {"rival", {RivalVerb, Pace::kStore}},
      {"progress", {ProgressVerb, Pace::kMemory}}, {"noted", {NotedVerb, Pace::kStore}},
      {"load", {LoadVerb, Pace::kMemory}},
  };
  return verbs;
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

Task<std::string> Queries::Run(std::string verb, std::string arguments, Until until) {
  // What it reads may be of them.
  core_.uses.Apply();
  Json parsed = arguments.empty() ? Json::object() : Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    co_return Error(Code::kInvalid, fmt::format("the arguments of '{}' are not a JSON object", verb));
  }
  if (verb == "drain" || verb == "stop") {
    hooks_.stop(verb == "drain");
    co_return std::string("{}");
  }
  const auto at = Verbs().find(verb);
  if (at == Verbs().end()) {
    co_return Error(Code::kInvalid, fmt::format("no verb '{}'; this daemon may be older", verb));
  }
  until.stop = hooks_.stopping;
  const VerbCall call{core_, hooks_, parsed, until};
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

boost::asio::awaitable<Reply> Queries::Answer(Buffer body, Until until) {
  const auto* message = proto::ReadMessage<proto::Query>(body);
  if (message == nullptr) {
    GlobalMetrics().Add(Counter::bad_requests);
    co_return ErrorReplyOf(Error(Code::kCorrupt, "the query does not verify"));
  }
  const std::string arguments = message->json() == nullptr ? "" : message->json()->str();
  const Result<std::string> answer = co_await Run(message->verb()->str(), arguments, until);
  if (!answer) co_return ErrorReplyOf(answer.error());
  proto::QueryReplyT reply;
  reply.json = *answer;
  co_return ReplyOf<proto::QueryReply>(proto::MessageType::QueryReply, reply);
}

}  // namespace ingot::daemon
