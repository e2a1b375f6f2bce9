// SPDX-License-Identifier: Apache-2.0
#include "daemon/queries.h"

#include <fmt/format.h>

#include <map>

#include "base/metrics.h"
#include "daemon/verbs.h"

namespace ingot::daemon {
namespace {

const std::map<std::string, Verb>& Verbs() {
  static const std::map<std::string, Verb> verbs = {
      {"status", StatusVerb}, {"stats", StatsVerb},   {"list", ListVerb},
      {"inspect", InspectVerb}, {"why-miss", WhyMissVerb}, {"config", ConfigVerb},
      {"log", LogVerb},       {"verify", VerifyVerb}, {"doctor", DoctorVerb},
      {"gc", GcVerb},         {"evict", EvictVerb},   {"pin", PinVerb},
      {"unpin", UnpinVerb},   {"retry", RetryVerb},   {"text", TextVerb},
      {"diff", DiffVerb},     {"quarantine", QuarantineVerb}, {"ranks", RanksVerb},
      {"split", SplitVerb},
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

Result<std::string> Queries::Run(const std::string& verb, const std::string& arguments) {
  Json parsed = arguments.empty() ? Json::object()
                                  : Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    return Error(Code::kInvalid, fmt::format("the arguments of '{}' are not a JSON object", verb));
  }
  if (verb == "drain" || verb == "stop") {
    hooks_.stop(verb == "drain");
    return std::string("{}");
  }
  const auto at = Verbs().find(verb);
  if (at == Verbs().end()) {
    return Error(Code::kInvalid, fmt::format("no verb '{}'; this daemon may be older", verb));
  }
  TRY_ASSIGN(const Json answer, at->second({core_, hooks_, parsed}));
  // Names come from users' code and need not be UTF-8.
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Reply Queries::Answer(Bytes body) {
  const auto* message = proto::ReadMessage<proto::Query>(body);
  if (message == nullptr) {
    GlobalMetrics().Add(Counter::bad_requests);
    return ErrorReplyOf(Error(Code::kCorrupt, "the query does not verify"));
  }
  const std::string arguments = message->json() == nullptr ? "" : message->json()->str();
  const Result<std::string> answer = Run(message->verb()->str(), arguments);
  if (!answer) return ErrorReplyOf(answer.error());
  proto::QueryReplyT reply;
  reply.json = *answer;
  return ReplyOf<proto::QueryReply>(proto::MessageType::QueryReply, reply);
}

}  // namespace ingot::daemon
