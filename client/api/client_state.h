// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/api/client.h"
#include "client/lib/connect/connection.h"

namespace ingot {

/// Behind Client.
struct Client::State {
  std::unique_ptr<client::Connection> connection;
  int deadline_ms = -1;
};

}  // namespace ingot
