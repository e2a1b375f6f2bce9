// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "base/temp_dir.h"
#include "cache/index/local_blobs.h"
#include "cache/index/local_index.h"
#include "cache/peer/remote_blobs.h"
#include "cache/peer/remote_index.h"
#include "cache/peer/remote_tokens.h"
#include "cache/store/memory_store.h"
#include "daemon/serve/serve.h"
#include "tests/support/await.h"
#include "tests/support/certificates.h"

namespace ingot::daemon {

/// A serving daemon of a test: certificates, tokens, a store in memory.
class ServeWorld {
 public:
  explicit ServeWorld(uint64_t store_bytes = 1u << 30) : store_({.bytes_max = store_bytes}) {
    certificates.Issue("server", "DNS:localhost,IP:127.0.0.1");
    config.serve_listen = "127.0.0.1:0";
    config.serve_certificate = certificates.cert("server");
    config.serve_key = certificates.key("server");
    config.serve_tokens = dir / "tokens";
    config.serve_name = "rack";
    token_file = NewToken("all", "read,write,admin");
  }
  ~ServeWorld() { Stop(); }

  /// The file of a new token.
  std::string NewToken(const std::string& name, const std::string& scopes, const std::string& audience = "rack",
                       int64_t expires_s = 0) {
    const auto token = cache::MakeToken(name, cache::ScopesFromText(scopes).value(), audience, expires_s);
    EXPECT_TRUE(token);
    EXPECT_TRUE(cache::EditTokens(config.serve_tokens, [&](std::vector<cache::TokenGrant>& grants) -> Status {
      grants.push_back(token->grant);
      return {};
    }));
    EXPECT_TRUE(cache::WriteTokenFile(dir / (name + ".token"), token->secret));
    return dir / (name + ".token");
  }
  void Start() {
    ServePorts ports;
    next_fence_ += 1000;
    ports.index = std::make_shared<cache::LocalIndex>(store_, cache::LeaseTableOptions{.first_fence = next_fence_});
    ports.blobs = std::make_shared<cache::LocalBlobs>(store_);
    Start(std::move(ports));
  }
  void Start(ServePorts ports) {
    auto opened = Serve::Open(config, std::move(ports));
    ASSERT_TRUE(opened) << opened.error().ToText();
    serve = std::move(opened).value();
    // At the same place when it comes back.
    config.serve_listen = "127.0.0.1:" + std::to_string(serve->port());
  }
  void Stop() { serve.reset(); }
  uint16_t port() const { return static_cast<uint16_t>(std::stoi(config.serve_listen.substr(10))); }

  cache::RemoteClientOptions Options(uint16_t port = 0) const {
    cache::RemoteClientOptions options;
    if (port == 0) port = this->port();
    options.url = cache::RemoteUrl::Parse("ingots://127.0.0.1:" + std::to_string(port)).value();
    options.url.place.ca_file = certificates.ca();
    options.token_file = token_file;
    options.name = "a test";
    return options;
  }

  TempDir dir;
  ingot::support::Certificates certificates{dir.path()};
  Config config;
  std::string token_file;
  std::unique_ptr<Serve> serve;

 private:
  uint64_t next_fence_ = 0;
  cache::MemoryStore store_;
};

/// Another daemon, as far as it is served: an index and blobs, each with connections of its own.
class ServedClient {
 public:
  explicit ServedClient(cache::RemoteClientOptions options)
      : index(std::make_shared<cache::RemoteClient>(thread_.io(), options)), blobs([&] {
          options.connections_max = 3;
          return std::make_shared<cache::RemoteClient>(thread_.io(), options);
        }()) {}

 private:
  ingot::support::IoThread thread_;

 public:
  cache::RemoteIndex index;
  cache::RemoteBlobs blobs;
};

}  // namespace ingot::daemon
