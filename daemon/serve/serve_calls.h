// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cache/peer/remote_tokens.h"
#include "cache/peer/remote_wire.h"
#include "daemon/serve/serve_ports.h"
#include "daemon/state/config.h"

namespace ingot::daemon {

/// What a request asks for is whole and within its limits: numbers of names, lengths of texts. kInvalid.
Status CheckRemoteRequest(const proto::RemoteRequestT& request);
/// The scope that an operation needs.
cache::TokenScope ScopeOf(proto::RemoteOp op);

struct RemoteResult {
  proto::RemoteReplyT reply;
  cache::SealedRef blob;
};
/// Does what a checked request asks for. `upload`: the blob that came with it.
cache::Task<RemoteResult> CallPorts(const ServePorts& ports, const Config& config, proto::RemoteRequestT request,
                                    cache::SealedRef upload, Until until);

}  // namespace ingot::daemon
