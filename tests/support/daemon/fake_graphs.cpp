// SPDX-License-Identifier: Apache-2.0
#include "tests/support/daemon/fake_graphs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

namespace ingot::daemon {
namespace {

struct Words {
  std::string kind, name;
  int64_t size = 0;
};

Words WordsOf(std::string_view text) {
  Words words;
  std::istringstream(std::string(text)) >> words.kind >> words.name >> words.size;
  return words;
}

}  // namespace

Result<std::string> FakeGraphs::Import(Bytes recording, const Wishes& /*wishes*/) const {
  std::string text(AsText(recording));
  while (text.starts_with("graph stuck ")) pause();  // As a disk that answers no more.
  if (!text.starts_with("graph ")) return Error(Code::kUnsupported, "not a graph: " + text);
  return text;
}

Result<Graphs::Ranged> FakeGraphs::Generalize(Bytes, const Wishes&) const {
  return Error(Code::kUnsupported, "the recording does not follow its sizes");
}

Result<std::string> FakeGraphs::Unify(std::string_view a, std::string_view b) const {
  const Words first = WordsOf(a);
  const Words second = WordsOf(b);
  if (first.name != second.name) return Error(Code::kUnsupported, "other nodes");
  return "template " + first.name;
}

Result<std::vector<int64_t>> FakeGraphs::SymbolsOf(std::string_view, std::string_view exact) const {
  return std::vector<int64_t>{WordsOf(exact).size};
}

Result<Digest> FakeGraphs::DigestOf(std::string_view graph) const { return ingot::DigestOf(graph); }

Result<Digest> FakeGraphs::DigestOfInstance(std::string_view graph_template,
                                            const std::vector<int64_t>& symbols) const {
  return ingot::DigestOf(fmt::format("graph {} {}", WordsOf(graph_template).name, symbols.at(0)));
}

Result<std::string> FakeGraphs::RangeFrom(std::string_view, const Ranged&) const {
  return Error(Code::kUnsupported, "words have no ranges");
}

Result<std::string> FakeGraphs::RangeOf(std::string_view, std::string_view range, size_t degree_max) const {
  if (degree_max == 0) return Error(Code::kUnsupported, "proved for constants only");
  return std::string(range);
}

}  // namespace ingot::daemon
