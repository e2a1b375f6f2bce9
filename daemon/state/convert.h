// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "cache/store/key.h"
#include "daemon/state/ports.h"
#include "proto/record_generated.h"
#include "proto/service_generated.h"

namespace ingot::daemon {

cache::Key ToKey(const proto::EntryKeyT& key);
cache::Key ToKey(const proto::EntryKey& key);

/// The function a key is about, for people and for finding its relatives: the text of item
/// "name" of component "function", else of its first item with a text; "" without one.
std::string FunctionOf(const cache::Key& key);
/// The same of a key under which is kept what is known of a callable before its calls' keys are made (component
/// "learnt_of"); "" for an entry's.
std::string LearntOf(const cache::Key& key);
/// Whose entry it is (daemon/ipc/peer.h); "" of the daemon's own user.
std::string TenantOf(const cache::Key& key);
/// Says in a key whose it is: keys of two tenants are never equal, and what one has said or compiled the other is not
/// given. kInvalid: the key has come with a tenant, which is for the daemon to say.
Status SetTenant(cache::Key& key, const std::string& tenant);
Status SetTenant(proto::EntryKeyT& key, const std::string& tenant);
/// Text of the items of a component, joined by spaces; "" when absent.
std::string TextOf(const cache::Key& key, std::string_view component);

/// Names the compile of one graph, with code of its own for `gears` (docs/format/key.md).
cache::Key GraphKey(const Digest& graph, const CompilerFacts& facts, const std::vector<int64_t>& gears = {});

/// What a recording saw, as requests and stored variants hold it.
using Dependencies = std::vector<std::unique_ptr<proto::DependencyT>>;

/// Whether both say the same of the same places, in the same order.
bool HaveSameRows(const Dependencies& one, const Dependencies& other);
/// Two dependency lists that cannot both hold: same kind and place, another digest; or one object in two places that
/// are two objects to the other.
bool Contradict(const Dependencies& stored, const Dependencies& seen);
/// Whether the request saw every place that the variant depends on.
bool SawAll(const proto::VariantT& variant, const proto::CompileT& request);
/// Adds to the variant what a recording saw and the variant did not.
void MergeDependencies(proto::VariantT& variant, const Dependencies& seen);

inline Digest GraphOf(const proto::VariantT& v) { return {v.graph_low, v.graph_high}; }
inline Digest ArtifactOf(const proto::VariantT& v) { return {v.artifact_low, v.artifact_high}; }

}  // namespace ingot::daemon
