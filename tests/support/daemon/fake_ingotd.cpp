// SPDX-License-Identifier: Apache-2.0
// The daemon with graphs that are words, for tests of its life as a process. Run under another name it is of a
// build of that name.
#include <filesystem>

#include "daemon/daemon_main.h"
#include "tests/support/daemon/fake_graphs.h"

int main(int count, char** values) {
  const ingot::daemon::FakeGraphs graphs;
  const std::string name = std::filesystem::path(values[0]).filename().string();
  const std::string build = name == "fake-ingotd" ? std::string(ingot::proto::BuildId()) : name;
  return ingot::daemon::DaemonMain(count, values, graphs, build);
}
