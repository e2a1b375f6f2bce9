// SPDX-License-Identifier: Apache-2.0
// The daemon with graphs that are words, for tests of its life as a process.
#include "daemon/daemon_main.h"
#include "daemon/fake_graphs.h"

int main(int count, char** values) {
  const ingot::daemon::FakeGraphs graphs;
  return ingot::daemon::DaemonMain(count, values, graphs);
}
