// SPDX-License-Identifier: Apache-2.0
// ingotd: keeps artifacts and has them compiled, for one user and one store directory.
#include "daemon/compile/compiler_graphs.h"
#include "daemon/daemon_main.h"

int main(int count, char** values) {
  const ingot::daemon::CompilerGraphs graphs;
  return ingot::daemon::DaemonMain(count, values, graphs);
}
