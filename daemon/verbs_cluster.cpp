// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "daemon/verbs.h"

namespace ingot::daemon {
namespace {

const char* NameOf(cache::CircuitBreaker::State state) {
  using State = cache::CircuitBreaker::State;
  switch (state) {
    case State::kClosed: return "used";
    case State::kOpen: return "left alone";
    case State::kTrying: return "tried again";
  }
  return "";
}

Json TierJson(const std::string& place, const cache::CircuitBreaker::Facts& breaker) {
  return {{"place", place},
          {"state", NameOf(breaker.state)},
          {"opened", breaker.opened},
          {"refused", breaker.refused},
          {"last_failure", breaker.why}};
}

}  // namespace

Task<Json> ClusterJson(Core& core) {
  if (!core.cluster.is_shared()) co_return Json();
  const Cluster::Facts facts = core.cluster.facts();
  const cache::ShadowPolicy::Counts shadows = core.shadowing.counts();
  co_return Json{{"host", facts.host},
                 {"index", TierJson(facts.index, facts.index_breaker)},
                 {"blobs", TierJson(facts.blobs, facts.blobs_breaker)},
                 {"takes", facts.trust_trouble.empty()},
                 {"trust_trouble", facts.trust_trouble},
                 {"gives", facts.can_write},
                 {"unsent", core.sharing.unsent()},
                 {"compiled_again",
                  {{"equal", shadows.equal},
                   {"different", shadows.different},
                   {"unstable", shadows.unstable},
                   {"abandoned", shadows.abandoned}}}};
}

Task<Json> RecallVerb(const VerbCall& call) {
  if (!call.core.cluster.is_shared()) {
    co_return Error(Code::kUnsupported, "this daemon shares nothing with other machines (cluster_index)");
  }
  CO_TRY(call.core.cluster.trust()->Refresh());
  CO_TRY_ASSIGN(const Recall::Counts here, co_await call.core.recall.FromHere(call.until));
  CO_TRY_ASSIGN(const cache::Removed removed, co_await call.core.recall.FromCluster(call.until));
  co_return Json{{"entries", here.entries},
                 {"variants", here.variants},
                 {"graphs", here.graphs},
                 {"cluster",
                  {{"records_read", removed.records_read},
                   {"records_changed", removed.records_changed},
                   {"records_deleted", removed.records_deleted},
                   {"envelopes", removed.envelopes},
                   {"blobs", removed.blobs},
                   {"unreadable", removed.unreadable},
                   {"contended", removed.contended}}}};
}

}  // namespace ingot::daemon
