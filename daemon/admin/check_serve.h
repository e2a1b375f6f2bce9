// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "base/clock.h"
#include "daemon/admin/checks.h"
#include "daemon/state/config.h"

namespace ingot::daemon {

/// Whether other daemons can be served as the configuration says: the files (a certificate and until when it holds, its
/// key, tokens and their modes), and whether `serve_listen` can be reached from here, by the name that the certificate
/// stands for and with TLS. Says nothing where nobody is to be served. Blocks, `timeout` for the connection.
void CheckServe(const Config& config, std::chrono::milliseconds timeout, const Clock& clock, Checks& checks);

}  // namespace ingot::daemon
