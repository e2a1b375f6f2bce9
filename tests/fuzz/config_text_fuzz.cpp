// SPDX-License-Identifier: Apache-2.0
// The daemon's configuration file.
#include <fmt/format.h>

#include "daemon/state/config.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using daemon::Config;
using daemon::ConfigFields;
using daemon::FieldText;

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string TextOf(const Config& config) {
  std::string text = "[daemon]\n";
  for (const auto& field : ConfigFields()) {
    const bool is_text = std::holds_alternative<std::string Config::*>(field.member);
    const std::string value = FieldText(config, field);
    text += std::string(field.name) + " = " + (is_text ? Quoted(value) : value) + "\n";
  }
  return text;
}

}  // namespace

std::vector<Buffer> Seeds() {
  const std::string text = TextOf(Config());
  const std::string others = "# ours\n[client]\nx = 1\n[daemon]\nworkers = 2 # two\n log_level=\"debug\"\n";
  return {Buffer(text.begin(), text.end()), Buffer(others.begin(), others.end())};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  using namespace ingot::daemon;
  Config config;
  const Status applied = ApplyConfigText(config, AsText({data, size}), "a.toml");
  if (!applied) {
    fuzz::Ensure(applied.error().code() == Code::kInvalid, applied.error().ToText());
    return 0;
  }
  fuzz::accepted = true;
  const std::string text = fuzz::TextOf(config);
  Config again;
  fuzz::Ensure(ApplyConfigText(again, text, "b.toml").has_value(), "what is written can be read:\n" + text);
  fuzz::Ensure(fuzz::TextOf(again) == text, "every field keeps its value:\n" + text);
  return 0;
}
