// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/listen_address.h"

#include <gtest/gtest.h>

namespace ingot::daemon::web {
namespace {

TEST(ParseListen, PrintsWhatItRead) {
  for (const char* text : {"127.0.0.1:9464", "[::1]:0", "0.0.0.0:80", "[2001:db8::1]:65535"}) {
    const auto endpoint = ParseListen(text);
    ASSERT_TRUE(endpoint) << endpoint.error().ToText();
    EXPECT_EQ(TextOf(*endpoint), text);
  }
  EXPECT_EQ(TextOf(*ParseListen("localhost:1")), "127.0.0.1:1");
}

TEST(ParseListen, SaysWhatMustStandThere) {
  for (const char* text : {"", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                           "127.0.0.1:1x", "example.org:80", "[::1:80", "::1:80", "[::1]80"}) {
    const auto endpoint = ParseListen(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code(), Code::kInvalid);
    EXPECT_NE(endpoint.error().message().find("must be ADDRESS:PORT"), std::string::npos);
  }
}

TEST(IsLoopbackHost, KnowsTheNamesThatLeadHereFromHereAlone) {
  for (const char* host :
       {"localhost", "LOCALHOST:9464", "127.0.0.1", "127.0.0.1:80", "127.8.9.1", "[::1]", "[::1]:9464"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1",
                           "[::2]:80", "localhost:80:80", "127.0.0.1@evil", "0.0.0.0", "localhost:evil"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

}  // namespace
}  // namespace ingot::daemon::web
