// SPDX-License-Identifier: Apache-2.0
#include "cache/net/loopback.h"

#include <boost/asio/ip/address.hpp>
#include <string>

namespace ingot::cache {

bool IsLoopback(std::string_view host) {
  if (host == "localhost") return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(host), error);
  return !error && address.is_loopback();
}

}  // namespace ingot::cache
