// SPDX-License-Identifier: Apache-2.0
// What a browser asks for: paths, queries and forms.
#include <fmt/format.h>

#include "daemon/web/target.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using daemon::web::Fields;

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

std::string Print(const Fields& fields) {
  std::string text;
  for (const auto& [name, value] : fields) {
    if (!text.empty()) text += "&";
    text += Escaped(name) + "=" + Escaped(value);
  }
  return text;
}

void CheckFields(const Fields& fields) {
  if (fields.empty()) return;
  const auto again = daemon::web::ParseFields(Print(fields));
  Ensure(again && *again == fields, "fields print and parse again: " + Print(fields));
}

}  // namespace

std::vector<Buffer> Seeds() {
  std::vector<Buffer> seeds;
  for (const std::string text :
       {"/", "/entry?key=0123&limit=20", "/api/list?name=a%20b&c=%C3%A4", "/graph.svg?of=x+y"}) {
    seeds.emplace_back(text.begin(), text.end());
  }
  return seeds;
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const std::string text(AsText({data, size}));
  if (const auto fields = daemon::web::ParseFields(text)) fuzz::CheckFields(*fields);
  const auto target = daemon::web::ParseTarget(text);
  if (!target) return 0;
  fuzz::accepted = true;
  fuzz::Ensure(target->path.starts_with('/'), "a path begins at the root");
  for (const char c : target->path) {
    fuzz::Ensure(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a path has no control characters");
  }
  fuzz::CheckFields(target->query);
  return 0;
}
