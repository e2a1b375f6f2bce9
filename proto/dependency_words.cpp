// SPDX-License-Identifier: Apache-2.0
#include "proto/dependency_words.h"

#include <fmt/format.h>

namespace ingot::proto {
namespace {

/// `module:name` as people write it.
std::string Dotted(std::string_view where) {
  std::string out(where);
  if (const size_t colon = out.find(':'); colon == 0) {
    out.erase(0, 1);
  } else if (colon != std::string::npos) {
    out[colon] = '.';
  }
  return out;
}

std::string Subject(std::string_view kind, std::string_view where) {
  if (kind == "env") return fmt::format("environment variable {}", where);
  if (kind == "attribute") return std::string(where);
  if (kind == "names") return "what is found under each name that the code reads";
  if (kind == "custom_op") return fmt::format("the implementation of operator {}", where);
  if (kind == "torch") return fmt::format("torch's {}", where);
  if (kind == "opaque") return Dotted(where);
  if (kind == "file") return fmt::format("file {}", where);
  return fmt::format("{} {}", kind, Dotted(where));
}

/// Of these the text is the value; of the others it says more about the subject.
bool HasValue(std::string_view kind) {
  return kind == "env" || kind == "global" || kind == "attribute" || kind == "torch";
}

}  // namespace

bool IsProved(std::string_view kind) { return kind != "opaque"; }

std::string DependencyWords(std::string_view kind, std::string_view where, std::string_view text) {
  const char* claim = IsProved(kind) ? "proved" : "assumed";
  const std::string subject = Subject(kind, where);
  // The text of `names` is a list of hundreds.
  if (text.empty() || kind == "names") return fmt::format("{}: {} is unchanged", claim, subject);
  if (HasValue(kind)) return fmt::format("{}: {} is still {}", claim, subject, text);
  return fmt::format("{}: {} ({}) is unchanged", claim, subject, text);
}

}  // namespace ingot::proto
