// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/daemon_view.h"

#include <fmt/format.h>

#include "tools/ingot/table.h"
#include "tools/ingot/terminal.h"

namespace ingot::tools {
namespace {

std::string OrDash(std::string text) { return text.empty() || text == "none" ? "-" : std::move(text); }

}  // namespace

uint64_t NumberIn(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_number() ? at->get<uint64_t>() : 0;
}

std::string TextIn(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? Printable(at->get<std::string>()) : "";
}

std::string ClusterText(const Json& now) {
  const auto cluster = now.find("cluster");
  if (cluster == now.end()) return "";
  if (!cluster->is_object()) return "cluster   none\n";
  std::string out = fmt::format("cluster   {} wait to be sent{}\n", NumberIn(*cluster, "unsent"),
                                cluster->value("can_write", false) ? "" : "; only reads: no private key");
  for (const Json& tier : cluster->value("tiers", Json::array())) {
    const std::string breaker = TextIn(tier, "breaker");
    const bool is_good = breaker == "closed";
    out += fmt::format("  {:<7} {}  {}{}\n", TextIn(tier, "tier"),
                       Painted(is_good ? Paint::kGood : Paint::kBad, is_good ? "answers" : "left alone"),
                       TextIn(tier, "place"), is_good ? "" : ": " + TextIn(tier, "why"));
  }
  const std::string trouble = TextIn(*cluster, "trust_trouble");
  if (!trouble.empty()) out += "  " + Painted(Paint::kBad, "nothing is taken: " + trouble) + "\n";
  return out;
}

std::string FlightsText(const Json& now) {
  const auto flights = now.find("oldest_flights");
  const uint64_t count = NumberIn(now, "flights");
  if (flights == now.end() || !flights->is_array() || flights->empty()) return fmt::format("flights   {}\n", count);
  Table table({"graph", "function", "age#", "waiting#", "state", "done in#", "lease", "holder"});
  for (const Json& flight : *flights) {
    const auto left = flight.find("left_s");
    const bool is_known = left != flight.end() && left->is_number();
    table.Add({TextIn(flight, "graph_key").substr(0, 12), TextIn(flight, "function"),
               SecondsText(flight.value("age_s", 0.0)), std::to_string(NumberIn(flight, "waiters")),
               OrDash(TextIn(flight, "state")), is_known ? "~" + SecondsText(left->get<double>()) : "-",
               OrDash(TextIn(flight, "lease")), OrDash(TextIn(flight, "holder"))});
  }
  return fmt::format("flights   {}\n{}", count, table.ToText());
}

}  // namespace ingot::tools
