// SPDX-License-Identifier: Apache-2.0
// Trust files: what reads can be added to, and an addition takes nothing away.
#include "cache/trust/trust_text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/cache/fake_provenance.h"

namespace ingot::fuzz {
namespace {

using cache::FakeKey;
using cache::Revocation;
using cache::TrustPolicy;

Buffer TextOf(const std::string& text) { return Buffer(text.begin(), text.end()); }

}  // namespace

std::vector<Buffer> Seeds() {
  const cache::SigningKey ci = FakeKey(1, "ci"), next = FakeKey(2, "next");
  std::string text =
      *cache::WithKey(cache::EmptyTrustText(), ci.public_key().ToLine(), {"all"}, {}, {5, 1'800'000'000});
  std::vector<Buffer> out = {TextOf(cache::EmptyTrustText()), TextOf(text)};
  text = *cache::WithKey(text, cache::Rotation::Make(ci, next, 10, 20)->ToLine(), {}, {}, {});
  text = *cache::WithRevocation(text, {.host = "h", .built = {7, 8}, .reason = "why"});
  out.push_back(TextOf(text + "[[domain]]\nname = \"mine\"\ngroups = [\"a*\"]\ntargets = [\"x\"]\nage_max_days = 3\n"
                              "this_host_only = true\n[x-notes]\na = { b = [1, 2.5, 2024-01-01] }\n"));
  return out;
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  using namespace ingot::fuzz;
  const std::string text(AsText({data, size}));
  const Result<TrustPolicy> before = TrustPolicy::Parse(text);
  const Revocation revocation{.host = "added", .reason = "a \"reason\"", .when_s = 5};
  const Result<std::string> edited = cache::WithRevocation(text, revocation);
  if (!before) {
    Ensure(!edited, "what does not read is not edited");
    return 0;
  }
  accepted = true;
  if (!edited) return 0;  // an array that is written in a line
  Ensure(edited->starts_with(text), "an addition changes nothing before it");
  const Result<TrustPolicy> after = TrustPolicy::Parse(*edited);
  Ensure(after.has_value(), "an edited file reads");
  Ensure(after->revocations().size() == before->revocations().size() + 1 && after->revocations().back() == revocation,
         "what was added is there");
  Ensure(after->keys().size() == before->keys().size() && after->domains().size() == before->domains().size(),
         "what was there is there");
  return 0;
}
