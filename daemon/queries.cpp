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

Task<std::string> Queries::Run(std::string verb, std::string arguments, Until until) {
  Json parsed = arguments.empty() ? Json::object()
                                  : Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
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
  const VerbCall call{core_, hooks_, parsed, until};
  CO_TRY_ASSIGN(const Json answer, co_await at->second(call));
  // Names come from users' code and need not be UTF-8.
  co_return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
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
