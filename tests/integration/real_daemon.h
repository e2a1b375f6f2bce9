// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/digest.h"
#include "client/lib/connect/connection.h"
#include "tests/support/eventually.h"
#include "tests/support/recording_builder.h"

namespace ingot::support {

using nlohmann::json;

inline std::unique_ptr<proto::EntryKeyT> KeyOf(const std::string& function, const std::string& activation = "SiLU") {
  auto key = std::make_unique<proto::EntryKeyT>();
  const auto add = [&](const char* component, const char* item, const std::string& text) {
    auto part = std::make_unique<proto::ComponentT>();
    part->name = component;
    part->items.push_back(std::make_unique<proto::ItemT>());
    part->items[0]->name = item;
    part->items[0]->text = text;
    part->items[0]->low = DigestOf(text).low;
    part->items[0]->high = DigestOf(text).high;
    key->components.push_back(std::move(part));
  };
  add("function", "name", function);
  add("module_state", "model.act_fn", activation);
  return key;
}

/// A request to compile silu(x) + 1 for each of these many rows of 16 floats.
inline proto::CompileT RequestFor(const std::string& function, const std::vector<int64_t>& rows) {
  RecordingBuilder r(function);
  std::vector<uint32_t> outputs;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Ints sizes = {rows[i], 16};
    const uint32_t x = r.Input("x" + std::to_string(i), guards::DType::kF32, sizes);
    const uint32_t s = r.Fresh(guards::DType::kF32, sizes);
    const uint32_t y = r.Fresh(guards::DType::kF32, sizes);
    r.Step("aten::silu", Args(V(x)), Args(V(s)));
    r.Step("aten::add.Tensor", Args(V(s), NumberOf(1.0), NumberOf(int64_t{1})), Args(V(y)));
    outputs.push_back(y);
  }
  const Buffer recording = r.Finish(outputs);
  proto::CompileT request;
  request.key = KeyOf(function);
  request.recording.assign(recording.begin(), recording.end());
  return request;
}

/// A compile of so many kernels that it takes long enough to be interrupted.
inline proto::CompileT LongRequest(const std::string& function) {
  std::vector<int64_t> rows(400);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i) + 3;
  return RequestFor(function, rows);
}

/// A real daemon with a store and a socket of its own.
class RealDaemonTest : public ::testing::Test {
 protected:
  RealDaemonTest() {
    std::string pattern = ::testing::TempDir() + "/ingotXXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~RealDaemonTest() override { std::filesystem::remove_all(dir_); }
  void TearDown() override { Stop(); }

  client::ConnectionOptions Options() const {
    client::ConnectionOptions options;
    options.store_dir = dir_ + "/store";
    options.socket = dir_ + "/run/s";
    options.daemon = INGOT_DAEMON;
    options.daemon_arguments = {"--workers", "1", "--worker-memory-bytes-max", "0"};
    return options;
  }
  std::unique_ptr<client::Connection> Open() const {
    auto connection = client::Connection::Open(Options());
    EXPECT_TRUE(connection) << connection.error().ToText();
    return connection ? std::move(connection).value() : nullptr;
  }
  json Ask(client::Connection& connection, const std::string& verb, const json& arguments = json::object()) const {
    const auto answer = connection.Query(verb, arguments.dump());
    EXPECT_TRUE(answer) << verb << ": " << answer.error().ToText();
    return answer ? json::parse(*answer) : json();
  }
  /// Ends the daemon, if there is one, and returns when its process has let go of the store.
  void Stop() const {
    client::ConnectionOptions options = Options();
    options.start = false;
    if (auto connection = client::Connection::Open(options)) {
      Ignore((*connection)->Query("drain"), "it may end before it answers");
    }
    WaitUntilGone();
  }
  void WaitUntilGone() const {
    const std::string lock = proto::ResolveEndpoint(dir_ + "/store")->lock_path();
    EXPECT_TRUE(Eventually([&] { return !proto::LockFile::HolderOf(lock); })) << lock;
  }

  std::string dir_;
};

}  // namespace ingot::support
