// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ingot::daemon::web {

/// "127.0.0.1:9464", "[::1]:0", "localhost:9464" (which is 127.0.0.1). kInvalid says what must stand there: names are
/// not resolved, so that what is listened on is what was written.
Result<boost::asio::ip::tcp::endpoint> ParseListen(std::string_view text);
/// "127.0.0.1:9464", "[::1]:9464".
std::string TextOf(const boost::asio::ip::tcp::endpoint& endpoint);

/// Whether a Host header names this machine as its own programs do: what a page of another site whose name was made to
/// lead here (DNS rebinding) sends is none of these. The port does not matter.
bool IsLoopbackHost(std::string_view host);

}  // namespace ingot::daemon::web
