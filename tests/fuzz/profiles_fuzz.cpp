// SPDX-License-Identifier: Apache-2.0
// Files of AWS profiles, as other programs write them.
#include "cache/s3/s3_credentials.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {

std::vector<Buffer> Seeds() {
  const std::string text =
      "# of the user\n[default]\naws_access_key_id = AKIA\naws_secret_access_key=s/e+c=ret\n\n; another\n[profile ci]\n"
      "region = eu-central-1\ns3 =\n  max_concurrent_requests = 20\n[ci]\naws_session_token = t\n";
  return {Buffer(text.begin(), text.end())};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const auto sections = cache::ParseProfiles(AsText({data, size}));
  if (!sections) {
    fuzz::Ensure(sections.error().code() == Code::kInvalid, sections.error().ToText());
    return 0;
  }
  fuzz::accepted = true;
  std::string text;
  for (const auto& [name, values] : *sections) {
    text += "[" + name + "]\n";
    for (const auto& [key, value] : values) text += key + "=" + value + "\n";
  }
  const auto again = cache::ParseProfiles(text);
  fuzz::Ensure(again && *again == *sections, "what parses prints and parses again:\n" + text);
  return 0;
}
