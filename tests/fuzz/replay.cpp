// SPDX-License-Identifier: Apache-2.0
// Runs one fuzz target without libFuzzer: its corpus, its seeds, and a fixed number of mutations.
//
// usage: TARGET CORPUS MUTATIONS     runs all of them; the same on every run
//        TARGET --seeds FOLDER       writes the seeds that builders make, for libFuzzer
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/digest.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

// ASan and UBSan exit without a signal.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace ingot::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kInputSecondsMax = 20;

/// What runs, for the report of a crash.
Buffer running;

/// Shell text that saves `running` as a corpus file. Calls nothing a signal handler may not.
void ReportInput() {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto put = [](const char* text, size_t size) {
    const ssize_t written = write(STDERR_FILENO, text, size);
    (void)written;
  };
  constexpr std::string_view kBefore = "\nThe input fails; add it to the corpus:\n  echo ";
  constexpr std::string_view kAfter = " | xxd -r -p > tests/fuzz/corpus/TARGET/NAME\n";
  put(kBefore.data(), kBefore.size());
  for (const uint8_t byte : running) {
    const char pair[2] = {kDigits[byte >> 4], kDigits[byte & 15]};
    put(pair, 2);
  }
  put(kAfter.data(), kAfter.size());
}

void OnSignal(int number) {
  ReportInput();
  signal(number, SIG_DFL);
  raise(number);
}

void CatchCrashes() {
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(ReportInput);
  // Also an input that never ends must be shown.
  for (const int number : {SIGABRT, SIGALRM}) signal(number, OnSignal);
  if (__sanitizer_set_death_callback != nullptr) return;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, OnSignal);
}

bool Run(Buffer input) {
  running = std::move(input);
  accepted = false;
  alarm(kInputSecondsMax);
  // A copy of exactly its size: a sanitizer sees a read behind the end.
  const Buffer copy(running);
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
  alarm(0);
  return accepted;
}

std::vector<Buffer> ReadCorpus(const std::string& folder) {
  std::vector<fs::path> paths;
  if (fs::is_directory(folder)) {
    for (const auto& file : fs::directory_iterator(folder)) paths.push_back(file.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Buffer> inputs;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

int WriteSeeds(const std::string& folder) {
  for (const Buffer& seed : Seeds()) {
    std::ofstream(fs::path(folder) / DigestOf(seed).ToShort(), std::ios::binary)
        .write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
  }
  return 0;
}

int Replay(const std::string& corpus, size_t mutations) {
  std::vector<Buffer> inputs = Seeds();
  const size_t built = inputs.size();
  for (Buffer& input : ReadCorpus(corpus)) inputs.push_back(std::move(input));
  size_t accepted_built = 0, good = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_good = Run(inputs[i]);
    good += is_good ? 1 : 0;
    accepted_built += is_good && i < built ? 1 : 0;
  }
  if (accepted_built != built || good == 0) {
    std::fprintf(stderr, "%zu of %zu seeds are refused, %zu inputs are accepted: they test nothing\n",
                 built - accepted_built, built, good);
    return 1;
  }
  std::printf("%zu of %zu inputs accepted, ", good, inputs.size());
  good = 0;
  Mutator mutator(inputs, /*seed=*/1);
  for (size_t i = 0; i < mutations; ++i) good += Run(mutator.Mutate(inputs[i % inputs.size()])) ? 1 : 0;
  std::printf("%zu of %zu mutations\n", good, mutations);
  return 0;
}

}  // namespace
}  // namespace ingot::fuzz

int main(int argc, char** argv) {
  using namespace ingot::fuzz;
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CORPUS MUTATIONS | --seeds FOLDER\n", argv[0]);
    return 2;
  }
  if (std::string_view(argv[1]) == "--seeds") return WriteSeeds(argv[2]);
  CatchCrashes();
  return Replay(argv[1], std::strtoul(argv[2], nullptr, 10));
}
