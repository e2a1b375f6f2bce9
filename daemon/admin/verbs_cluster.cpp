// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "daemon/admin/verbs.h"

namespace ingot::daemon {
namespace {

const char* NameOfState(cache::CircuitBreaker::State state) {
  switch (state) {
    case cache::CircuitBreaker::State::kClosed: return "closed";
    case cache::CircuitBreaker::State::kOpen: return "open";
    case cache::CircuitBreaker::State::kTrying: return "trying";
  }
  return "open";
}

Json TierJson(const char* name, const std::string& place, const cache::CircuitBreaker::Facts& breaker) {
  return {{"tier", name},
          {"place", place},
          {"breaker", NameOfState(breaker.state)},
          {"opened", breaker.opened},
          {"refused", breaker.refused},
          {"why", breaker.why}};
}

}  // namespace

Json ClusterJson(const Core& core) {
  if (!core.cluster.is_shared()) return Json();
  const Cluster::Facts facts = core.cluster.facts();
  const cache::ShadowPolicy::Counts shadows = core.shadowing.counts();
  Json tiers = Json::array();
  tiers.push_back(TierJson("index", facts.index, facts.index_breaker));
  tiers.push_back(TierJson("blobs", facts.blobs, facts.blobs_breaker));
  return {{"host", facts.host},
          {"tiers", tiers},
          {"trust_trouble", facts.trust_trouble},
          {"can_write", facts.can_write},
          {"unsent", facts.can_write ? core.sharing.unsent() : 0},
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
  CO_TRY_ASSIGN(const cache::Removed removed, co_await call.core.cluster.RemoveRevoked(call.until));
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
