// SPDX-License-Identifier: Apache-2.0
#include "daemon/failure.h"

namespace ingot::daemon {

bool IsRecorded(const Error& error) { return error.code() != Code::kCancelled && error.code() != Code::kUnavailable; }

std::unique_ptr<proto::FailureT> MakeFailure(const Error& error, const Digest& graph_key, const std::string& compiler,
                                             const Config& config, int64_t now_s) {
  auto failure = std::make_unique<proto::FailureT>();
  failure->code = static_cast<uint8_t>(error.code());
  failure->message = error.message();
  failure->compiler = compiler;
  failure->when = now_s;
  const bool lasting = error.code() == Code::kInvalid || error.code() == Code::kUnsupported;
  failure->retry_at = lasting ? 0 : now_s + static_cast<int64_t>(config.negative_retry_s);
  failure->graph_key_low = graph_key.low;
  failure->graph_key_high = graph_key.high;
  return failure;
}

std::unique_ptr<proto::FailureT> MakeQuarantine(const std::string& why, const Digest& graph_key,
                                                const std::string& compiler, int64_t now_s) {
  auto failure = std::make_unique<proto::FailureT>();
  failure->code = static_cast<uint8_t>(Code::kInternal);
  failure->message = why;
  failure->compiler = compiler;
  failure->when = now_s;
  failure->graph_key_low = graph_key.low;
  failure->graph_key_high = graph_key.high;
  failure->quarantined = true;
  return failure;
}

Error ErrorOf(const proto::FailureT& failure) {
  const bool known =
      failure.code >= static_cast<uint8_t>(Code::kInvalid) && failure.code <= static_cast<uint8_t>(Code::kInternal);
  return Error(known ? static_cast<Code>(failure.code) : Code::kInternal, failure.message);
}

std::optional<Error> FailureInForce(const proto::FailureT& failure, int64_t now_s) {
  if (failure.retry_at != 0 && failure.retry_at <= now_s) return std::nullopt;
  return ErrorOf(failure);
}

}  // namespace ingot::daemon
