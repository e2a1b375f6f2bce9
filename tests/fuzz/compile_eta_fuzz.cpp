// SPDX-License-Identifier: Apache-2.0
// What holders of leases on other machines say of their progress.
#include "daemon/compile/compile_eta.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {

std::vector<Buffer> Seeds() {
  std::vector<Buffer> seeds;
  for (const std::string_view text : {R"({"state":"compiles","since_ms":3000,"left_ms":11500})",
                                      R"({"state":"queued"})", R"({"left_ms":1,"more":[1,{}]})"}) {
    seeds.emplace_back(text.begin(), text.end());
  }
  return seeds;
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const SteadyTime now = SteadyTime() + std::chrono::hours(100'000);
  const daemon::CompileEta read = daemon::CompileEtaOf(AsText({data, size}), "h", now);
  fuzz::Ensure(read.holder == "h", "nobody says who he is");
  fuzz::Ensure(!read.due || *read.due >= now, "nothing is expected in the past");
  fuzz::Ensure(!read.since || *read.since <= now, "nothing has begun in the future");
  daemon::CompileEta expected = read;
  // What is due now is not said any more.
  if (read.due && *read.due == now) expected.due.reset();
  fuzz::accepted = read != daemon::CompileEtaOf("", "h", now);
  fuzz::Ensure(daemon::CompileEtaOf(daemon::ProgressOf(read, now), "h", now) == expected, "what is said is read");
  return 0;
}
