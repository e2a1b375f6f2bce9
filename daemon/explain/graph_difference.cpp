// SPDX-License-Identifier: Apache-2.0
#include "daemon/explain/graph_difference.h"

#include <fmt/format.h>

#include <map>
#include <vector>

namespace ingot::daemon {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/// End of the name that begins at `from`; quoted names hold anything but a quote.
size_t EndOfName(std::string_view line, size_t from) {
  if (from < line.size() && line[from] == '"') {
    const size_t quote = line.find('"', from + 1);
    return quote == std::string_view::npos ? line.size() : quote + 1;
  }
  while (from < line.size() && IsNameCharacter(line[from])) ++from;
  return from;
}

/// Lines of one graph, each with its values' names replaced by the order of their first use.
class Lines {
 public:
  explicit Lines(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      lines_.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  size_t size() const { return lines_.size(); }
  std::string_view at(size_t i) const { return i < lines_.size() ? lines_[i] : std::string_view(); }
  /// To be asked for every line in order.
  std::string Nameless(size_t i) {
    const std::string_view line = at(i);
    std::string out;
    for (size_t from = 0; from < line.size();) {
      const bool names_graph = i == 0 && line[from] == '@';
      if (line[from] != '%' && !names_graph) {
        out += line[from++];
        continue;
      }
      const size_t end = EndOfName(line, from + 1);
      if (!names_graph) {
        const auto [known, added] = numbers_.try_emplace(line.substr(from, end - from), numbers_.size());
        out += fmt::format("%{}", known->second);
      }
      from = end;
    }
    return out;
  }

 private:
  std::vector<std::string_view> lines_;
  std::map<std::string_view, size_t> numbers_;
};

std::string PlaceOf(std::string_view line, size_t number) {
  if (line.starts_with("return")) return "return";
  if (line.starts_with("graph")) return "inputs";  // Few enough to stand beside the name.
  if (!line.starts_with('%')) return fmt::format("line {}", number + 1);
  const std::string_view name = line.substr(0, EndOfName(line, 1));
  const bool is_input = line.substr(name.size()).starts_with(':');
  return fmt::format("{} {}", is_input ? "input" : "node", name);
}

}  // namespace

std::string GraphDifference::ToText() const {
  const auto shown = [](const std::string& line) { return line.empty() ? "absent" : line; };
  return fmt::format("graph {}: {} -> {}", place, shown(stored), shown(asked));
}

std::optional<GraphDifference> FirstGraphDifference(std::string_view stored, std::string_view asked) {
  Lines was(stored);
  Lines is(asked);
  for (size_t i = 0; i < std::max(was.size(), is.size()); ++i) {
    if (was.Nameless(i) == is.Nameless(i)) continue;
    const std::string_view line = is.at(i).empty() ? was.at(i) : is.at(i);
    return GraphDifference{PlaceOf(line, i), std::string(was.at(i)), std::string(is.at(i))};
  }
  return std::nullopt;
}

}  // namespace ingot::daemon
