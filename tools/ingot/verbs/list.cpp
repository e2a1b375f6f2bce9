// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "tools/ingot/table.h"
#include "tools/ingot/terminal.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

/// All pages as one answer.
Result<std::vector<Json>> AllEntries(Session& session, const std::string& function) {
  std::vector<Json> entries;
  Json after = "";
  while (after.is_string()) {
    TRY_ASSIGN(Json page, session.Ask("list", {{"function", function}, {"after", after}}));
    for (Json& entry : page["entries"]) entries.push_back(std::move(entry));
    after = page.value("next", Json());
  }
  return entries;
}

/// A column to sort by: names upwards, all else the most first, as people look for it.
struct Order {
  const char* name;
  const char* field;
  bool most_first;
};
constexpr Order kOrders[] = {{"used", "last_use", true},  {"created", "created", true}, {"size", "bytes", true},
                             {"cost", "compile_s", true}, {"hits", "hits", true},       {"function", "function", false},
                             {"key", "key", false}};

void Sort(std::vector<Json>& entries, const std::string& by, bool reverse) {
  const Order* order = &kOrders[0];
  for (const Order& one : kOrders) {
    if (by == one.name) order = &one;
  }
  const bool downwards = order->most_first != reverse;
  std::stable_sort(entries.begin(), entries.end(), [&](const Json& a, const Json& b) {
    const Json &one = a[order->field], &other = b[order->field];
    return downwards ? other < one : one < other;
  });
}

std::string StateOf(const Json& entry) {
  if (entry["failed"].get<bool>()) return Painted(Paint::kBad, "failed");
  return entry["pinned"].get<bool>() ? Painted(Paint::kGood, "pinned") : "";
}

Status ListEntries(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(std::vector<Json> entries, AllEntries(session, arguments.Text("function")));
  TRY_ASSIGN(const uint64_t limit, arguments.Number("--limit", entries.size()));
  Sort(entries, arguments.Text("--sort"), arguments.Flag("reverse"));
  const size_t all = entries.size();
  entries.resize(std::min<size_t>(entries.size(), limit));
  const std::string form = arguments.Text("--output");
  Arguments printing = arguments;
  printing.json = printing.json || form == "json";
  if (PrintedJson(printing, Json{{"entries", entries}})) return {};
  if (form == "name") {
    for (const Json& entry : entries) fmt::print("{}\n", entry["key"].get<std::string>());
    return {};
  }
  if (entries.empty()) {
    // For people: who reads the output of this gets nothing.
    fmt::print(stderr, "no entries{}\n", arguments.Text("function").empty() ? "" : " of such a function");
    return {};
  }
  const bool is_wide = form == "wide";
  const int64_t now = std::time(nullptr);
  std::vector<std::string> headings = {"key",      "function", "variants#", "bytes#", "hits#",
                                       "compile#", "last use", "rank",      "state"};
  if (is_wide) headings.insert(headings.end(), {"created", "target"});
  Table table(std::move(headings));
  for (const Json& entry : entries) {
    const std::string key = entry["key"].get<std::string>();
    std::vector<std::string> cells = {Painted(Paint::kName, is_wide ? key : key.substr(0, 12)),
                                      Printable(entry["function"].get<std::string>()),
                                      entry["variants"].dump(),
                                      BytesText(entry["bytes"].get<uint64_t>()),
                                      entry["hits"].dump(),
                                      fmt::format("{:.2f} s", entry["compile_s"].get<double>()),
                                      AgeText(entry["last_use"].get<int64_t>(), now),
                                      entry["rank"].get<std::string>(),
                                      StateOf(entry)};
    if (is_wide) {
      cells.push_back(AgeText(entry["created"].get<int64_t>(), now));
      cells.push_back(Printable(entry["target"].get<std::string>()));
    }
    table.Add(std::move(cells));
  }
  table.Print();
  if (entries.size() < all) fmt::print("{} of {} entries\n", entries.size(), all);
  return {};
}

}  // namespace

Verb ListVerb() {
  return {"list",
          "Stored entries, the last used first",
          {{"function", "Only functions whose name contains this", Parameter::kOptional, values::kFunction},
           {"-s,--sort", "By what: the last, largest, dearest or most first, names upwards", Parameter::kOptional,
            "used|created|size|cost|hits|function|key"},
           {"-r,--reverse", "The other way round", Parameter::kFlag},
           {"-n,--limit", "At most so many", Parameter::kOptional, values::kNumber},
           {"-o,--output", "With whole keys, times and targets; as JSON; keys alone", Parameter::kOptional,
            "wide|json|name"}},
          true,
          ListEntries};
}

}  // namespace ingot::tools
