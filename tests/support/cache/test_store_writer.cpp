// SPDX-License-Identifier: Apache-2.0
// A process that writes to a store until it is killed, by others or by itself at a call to the disk:
//   test-store-writer <dir> <round> <kill at call, 0: never> <writes>
// Prints "try <n>" before each write and "done <n> <version>" once it is acknowledged.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "cache/store/rocks_store.h"
#include "tests/support/cache/test_publish.h"
#include "tests/support/faulty_disk.h"

namespace {

void Say(const std::string& line) {
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(3);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ingot;
  using namespace ingot::cache;
  if (argc != 5) return 2;
  const std::string dir = argv[1];
  const auto round = static_cast<uint32_t>(std::atoi(argv[2]));
  RocksStoreOptions options = PublishOptions();
  const auto disk = std::make_shared<FaultyDisk>(dir);
  const auto kill_at = static_cast<uint64_t>(std::atoll(argv[3]));
  if (kill_at != 0) {
    disk->Fail({.first = kill_at});
    disk->OnFault([] { ::raise(SIGKILL); });
  }
  options.db.disk = std::make_shared<FaultyEnv>(disk);
  Result<std::unique_ptr<Store>> store = OpenRocksStore(dir, options);
  if (!store) {
    std::fprintf(stderr, "%s\n", store.error().ToText().c_str());
    return 4;
  }
  for (uint32_t n = 0; n < static_cast<uint32_t>(std::atoi(argv[4])); ++n) {
    const Publish publish = PublishOf(round, n);
    Say(fmt::format("try {}\n", n));
    const Result<uint64_t> version = publish.Do(**store);
    if (!version) {
      std::fprintf(stderr, "%s\n", version.error().ToText().c_str());
      return 5;
    }
    Say(fmt::format("done {} {}\n", n, *version));
  }
  return 0;
}
