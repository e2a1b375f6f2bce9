// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/metrics.h"
#include "cache/store/memory_store.h"
#include "client/lib/connect/connection.h"
#include "daemon/core.h"
#include "daemon/ipc/server.h"
#include "proto/message.h"
#include "tests/support/daemon/fake_compilers.h"
#include "tests/support/daemon/fake_graphs.h"
#include "tests/support/run_task.h"

namespace ingot::daemon {

/// A directory that goes with its owner.
class TestDir {
 public:
  TestDir() {
    std::string pattern = testing::TempDir() + "/ingotXXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TestDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// What a small file holds.
inline std::string ReadAll(const UniqueFd& file) {
  char text[256] = {};
  const ssize_t got = pread(file.get(), text, sizeof text, 0);
  return std::string(text, got < 0 ? 0 : static_cast<size_t>(got));
}

/// A component with one item.
inline std::unique_ptr<proto::ComponentT> MakeComponent(const std::string& name, const std::string& item,
                                                        const std::string& text) {
  auto component = std::make_unique<proto::ComponentT>();
  component->name = name;
  component->items.push_back(std::make_unique<proto::ItemT>());
  component->items[0]->name = item;
  component->items[0]->text = text;
  component->items[0]->low = DigestOf(text).low;
  component->items[0]->high = DigestOf(text).high;
  return component;
}

inline std::unique_ptr<proto::EntryKeyT> MakeKey(const std::string& function, const std::string& state = "SiLU") {
  auto key = std::make_unique<proto::EntryKeyT>();
  key->components.push_back(MakeComponent("function", "name", function));
  key->components.push_back(MakeComponent("module_state", "model.act_fn", state));
  return key;
}

inline proto::CompileT MakeCompile(const std::string& function, const std::string& recording) {
  proto::CompileT request;
  request.key = MakeKey(function);
  request.recording.assign(recording.begin(), recording.end());
  return request;
}

inline void AddDependency(proto::CompileT& request, const std::string& kind, const std::string& where,
                          uint64_t digest) {
  auto& added = *request.dependencies.emplace_back(std::make_unique<proto::DependencyT>());
  added.kind = kind;
  added.where = where;
  added.low = digest;
}

/// A server that runs on a thread of its own for as long as it is there.
class RunningServer {
 public:
  RunningServer(Core& core, proto::Endpoint endpoint)
      : endpoint_(std::move(endpoint)),
        server_(core, ServerOptions{.endpoint = endpoint_, .admin_socket = endpoint_.socket + ".admin"}) {
    const Status listens = server_.Listen();
    EXPECT_TRUE(listens) << listens.error().ToText();
    if (listens) thread_ = std::thread([this] { server_.Run(/*handle_signals=*/false); });
  }
  ~RunningServer() {
    if (thread_.joinable()) server_.Stop();
    Wait();
  }

  std::unique_ptr<client::Connection> Connect() const {
    client::ConnectionOptions options;
    options.store_dir = endpoint_.store_dir;
    options.socket = endpoint_.socket;
    options.start = false;
    options.administers = true;
    auto connection = client::Connection::Open(options);
    EXPECT_TRUE(connection) << connection.error().ToText();
    return connection ? std::move(connection).value() : nullptr;
  }
  /// Until it has ended, by itself or because somebody asked for it.
  void Wait() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  const proto::Endpoint endpoint_;
  Server server_;
  std::thread thread_;
};

/// A daemon inside the test, with a fake compiler behind a real socket.
class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    GlobalMetrics().Reset();
    config_.idle_exit_s = 0;
    store_ = std::make_unique<cache::MemoryStore>();
    StartServer();
  }
  void TearDown() override { StopServer(); }

  void StartServer() {
    compilers_ = std::make_unique<FakeCompilers>();
    core_ = std::make_unique<Core>(config_, *store_, graphs_, *compilers_, *clock_);
    before_server_();
    server_ = std::make_unique<RunningServer>(*core_, proto::Endpoint{dir_.path() + "/store", socket_path()});
  }
  void StopServer() {
    server_.reset();
    core_.reset();
    compilers_.reset();
  }
  std::unique_ptr<client::Connection> Connect() { return server_->Connect(); }
  uint64_t Count(Counter counter) const { return GlobalMetrics().Get(counter); }
  std::string socket_path() const { return dir_.path() + "/s"; }

  TestDir dir_;
  Config config_;
  const Clock* clock_ = &SystemClock();
  FakeGraphs graphs_;
  std::unique_ptr<cache::MemoryStore> store_;
  std::unique_ptr<FakeCompilers> compilers_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<RunningServer> server_;
  /// Changes what has just been made before it is served.
  std::function<void()> before_server_ = [] {};
};

}  // namespace ingot::daemon
