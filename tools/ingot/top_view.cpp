// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/top_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/ingot/daemon_view.h"
#include "tools/ingot/table.h"
#include "tools/ingot/terminal.h"

namespace ingot::tools {
namespace {

/// Clients that fit beside the rest.
constexpr size_t kLoadRowsMax = 10;

std::string RateText(uint64_t now, uint64_t before, double passed_s) {
  if (passed_s <= 0 || now < before) return "";
  return fmt::format(", {:.1f}/s", static_cast<double>(now - before) / passed_s);
}

std::string Share(uint64_t part, uint64_t all) {
  return all == 0 ? "-" : fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(all));
}

std::string Head(const Json& now) {
  return fmt::format("{} {}  pid {}  up {}  clients {}  workers {}  memory files {} ({})\n",
                     Painted(Paint::kBold, "ingotd"), TextIn(now, "version"), NumberIn(now, "pid"),
                     SecondsText(static_cast<double>(NumberIn(now, "uptime_s"))), NumberIn(now, "clients"),
                     now.contains("workers") ? std::to_string(NumberIn(now, "workers")) : "?",
                     NumberIn(now, "open_artifacts"), BytesText(NumberIn(now, "open_artifact_bytes")));
}

std::string Lookups(const Json& now, const std::optional<Json>& before, double passed_s) {
  const uint64_t hits = NumberIn(now, "hits"), all = hits + NumberIn(now, "misses");
  std::string recent;
  if (before) {
    const uint64_t hits_before = NumberIn(*before, "hits"), all_before = hits_before + NumberIn(*before, "misses");
    recent = RateText(all, all_before, passed_s);
    const uint64_t hits_new = hits - std::min(hits, hits_before);
    if (all > all_before) recent += fmt::format(" of which {} hit", Share(hits_new, all - all_before));
  }
  return fmt::format("look-ups  {}{}; {} hit since the start\n", all, recent, Share(hits, all));
}

std::string Compiles(const Json& now, const std::optional<Json>& before, double passed_s) {
  const uint64_t compiles = NumberIn(now, "compiles");
  const uint64_t failures = NumberIn(now, "compile_failures");
  return fmt::format("compiles  {}{}; {}; {} wait\n", compiles,
                     before ? RateText(compiles, NumberIn(*before, "compiles"), passed_s) : "",
                     failures == 0 ? "none failed" : Painted(Paint::kWarn, fmt::format("{} failed", failures)),
                     NumberIn(now, "compiles_pending"));
}

std::string StoreLine(const Json& now) {
  const auto store = now.find("store");
  if (store == now.end() || !store->is_object()) return "";
  const uint64_t bytes = NumberIn(*store, "bytes"), bytes_max = NumberIn(*store, "bytes_max");
  std::string out =
      fmt::format("store     {}{}  {} entries\n", BytesText(bytes),
                  bytes_max == 0 ? "" : fmt::format(" of {}  {}", BytesText(bytes_max), BarText(bytes, bytes_max, 20)),
                  NumberIn(*store, "entries"));
  const std::string trouble = TextIn(*store, "trouble");
  if (!trouble.empty()) out += "          " + Painted(Paint::kBad, trouble) + "\n";
  return out;
}

/// Who shares the processors, those that use most first.
std::string Load(const Json& now) {
  const auto load = now.find("load");
  if (load == now.end() || !load->is_object()) return "";
  const uint64_t count = NumberIn(*load, "clients_sharing");
  if (count == 0) return "";
  const auto number = [](const Json& from, const char* name) {
    const auto at = from.find(name);
    return at != from.end() && at->is_number() ? fmt::format("{:.1f}", at->get<double>()) : "?";
  };
  std::string out = fmt::format("load      {} of {} processors busy, {} of them with other things; {} calls run\n",
                                number(*load, "busy"), NumberIn(*load, "processors"), number(*load, "others"),
                                number(*load, "running"));
  Table table({"pid#", "program", "running#", "threads#", "processors#", "share#", "calls/s#"});
  size_t rows = 0;
  for (const Json& client : load->value("clients", Json::array())) {
    if (rows++ >= kLoadRowsMax) break;
    table.Add({std::to_string(NumberIn(client, "pid")), TextIn(client, "program"), number(client, "running"),
               number(client, "threads"), number(client, "processors"), number(client, "share"),
               number(client, "calls_per_s")});
  }
  out += table.ToText();
  if (count > kLoadRowsMax) out += fmt::format("and {} more\n", count - kLoadRowsMax);
  return out;
}

std::string Misses(const Json& now, size_t rows_max) {
  const auto misses = now.find("newest_misses");
  if (misses == now.end() || !misses->is_array() || misses->empty()) return "";
  const auto clock = static_cast<int64_t>(NumberIn(now, "now"));
  Table table({"newest misses", "when", "reason", "why"});
  size_t rows = 0;
  for (const Json& miss : *misses) {
    if (rows++ >= rows_max) break;
    table.Add({TextIn(miss, "function"), AgeText(miss.value("when", int64_t{0}), clock), TextIn(miss, "reason"),
               TextIn(miss, "why").substr(0, 80)});
  }
  return table.ToText();
}

}  // namespace

std::string TopFrame(const Json& now, const std::optional<Json>& before, double passed_s, size_t lines) {
  std::string out = Head(now) + Lookups(now, before, passed_s) + Compiles(now, before, passed_s) + StoreLine(now) +
                    ClusterText(now) + FlightsText(now) + Load(now);
  const auto used = static_cast<size_t>(std::ranges::count(out, '\n'));
  // What does not fit is the oldest misses.
  out += Misses(now, lines == 0 ? SIZE_MAX : lines > used + 2 ? lines - used - 2 : 0);
  if (lines == 0) return out;
  size_t end = 0;
  for (size_t i = 0; i < lines && end != out.npos; ++i) end = out.find('\n', end == 0 && i == 0 ? 0 : end + 1);
  return end == out.npos ? out : out.substr(0, end + 1);
}

Result<Json> OverviewOf(Session& session) {
  TRY_ASSIGN(Json overview, session.Ask("status"));
  TRY_ASSIGN(const Json stats, session.Ask("stats"));
  for (const auto& [name, counter] : {std::pair{"hits", "entry_hits"},
                                      {"misses", "entry_misses"},
                                      {"compiles", "compiles"},
                                      {"compile_failures", "compile_failures"}}) {
    overview[name] = NumberIn(stats, counter);
  }
  return overview;
}

}  // namespace ingot::tools
