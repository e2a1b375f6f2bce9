// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>

namespace ingot::daemon {

/// A graph that is words as graphviz reads it: the words are one kernel, one after the other.
inline std::string DotOfWords(const std::string& graph) {
  std::string boxes, last = "input";
  std::istringstream words(graph);
  int at = 0;
  for (std::string word; words >> word; ++at) {
    std::string label;
    for (const char c : word) label += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    const std::string id = "k" + std::to_string(at);
    boxes += "    " + id + " [class=op, label=\"" + label + "\"]\n    " + last + " -> " + id + "\n";
    last = id;
  }
  return "digraph words {\n  node [shape=box, style=rounded]\n  input [class=input, shape=ellipse]\n"
         "  subgraph cluster_0 {\n    class=kernel\n    style=\"rounded,dashed\"\n    label=\"kernel words\"\n" +
         boxes + "  }\n}\n";
}

}  // namespace ingot::daemon
