// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/exposition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cache/index/local_index.h"
#include "tests/support/daemon/test_server.h"

namespace ingot::daemon::web {
namespace {

/// The text format as Prometheus documents it, and not a word more.
class Parser {
 public:
  struct Family {
    std::string type, help;
    std::map<std::string, double> series;  ///< By name and labels as written.
  };

  explicit Parser(const std::string& text) {
    EXPECT_TRUE(text.empty() || text.ends_with('\n')) << "the last line must end";
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) Take(line);
    for (auto& [name, family] : families) {
      EXPECT_FALSE(family.type.empty()) << name << " has no TYPE";
      if (family.type == "histogram") CheckHistogram(name, family);
    }
  }
  double Value(const std::string& series) const {
    for (const auto& [name, family] : families) {
      if (const auto at = family.series.find(series); at != family.series.end()) return at->second;
    }
    ADD_FAILURE() << "no series " << series;
    return -1;
  }
  std::map<std::string, Family> families;

 private:
  static bool IsName(const std::string& name) {
    const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == ':'; };
    return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::ranges::all_of(name, is_letter);
  }
  void Take(const std::string& line) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) {
      const size_t end = line.find(' ', 7);
      ASSERT_NE(end, std::string::npos) << line;
      const std::string name = line.substr(7, end - 7), text = line.substr(end + 1);
      ASSERT_TRUE(IsName(name)) << line;
      if (line[2] == 'H') {
        ASSERT_FALSE(families.contains(name)) << "a second time: " << line;
        families[name].help = text;
      } else {
        ASSERT_TRUE(families.contains(name) && families[name].type.empty() && families[name].series.empty()) << line;
        ASSERT_TRUE((std::set<std::string>{"counter", "gauge", "histogram"}.contains(text))) << line;
        families[name].type = text;
      }
      last_ = name;
      return;
    }
    ASSERT_FALSE(line.empty() || line[0] == '#') << line;
    size_t at = line.find_first_of("{ ");
    ASSERT_NE(at, std::string::npos) << line;
    const std::string name = line.substr(0, at);
    ASSERT_TRUE(IsName(name)) << line;
    if (line[at] == '{') {
      ASSERT_NO_FATAL_FAILURE(SkipLabels(line, at));
    }
    ASSERT_EQ(line[at], ' ') << line;
    char* end = nullptr;
    const double value = std::strtod(line.c_str() + at + 1, &end);
    ASSERT_TRUE(end != line.c_str() + at + 1 && *end == '\0') << line;
    // All lines of a family stand together, under its head.
    ASSERT_TRUE(name == last_ || (families[last_].type == "histogram" && name.starts_with(last_))) << line;
    ASSERT_TRUE(families[last_].series.emplace(line.substr(0, at), value).second) << "twice: " << line;
    if (families[last_].type == "counter") {
      EXPECT_TRUE(name.ends_with("_total")) << line;
    }
  }
  static void SkipLabels(const std::string& line, size_t& at) {
    std::set<std::string> names;
    do {
      const size_t equals = line.find("=\"", ++at);
      ASSERT_NE(equals, std::string::npos) << line;
      const std::string name = line.substr(at, equals - at);
      ASSERT_TRUE(IsName(name) && names.insert(name).second) << line;
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] != '\\') continue;
        ++at;
        ASSERT_TRUE(at < line.size() && (line[at] == '\\' || line[at] == '"' || line[at] == 'n')) << line;
      }
      ASSERT_LT(++at, line.size()) << line;
    } while (line[at] == ',');
    ASSERT_EQ(line[at++], '}') << line;
  }
  static void CheckHistogram(const std::string& name, const Family& family) {
    std::map<double, double> buckets;
    double sum = -1, count = -1;
    for (const auto& [series, value] : family.series) {
      if (series == name + "_sum")
        sum = value;
      else if (series == name + "_count")
        count = value;
      else {
        const std::string head = name + "_bucket{le=\"";
        ASSERT_TRUE(series.starts_with(head)) << series;
        buckets[std::strtod(series.c_str() + head.size(), nullptr)] = value;
      }
    }
    ASSERT_FALSE(buckets.empty());
    EXPECT_EQ(buckets.rbegin()->first, HUGE_VAL) << name;
    EXPECT_EQ(buckets.rbegin()->second, count) << name;
    EXPECT_GE(sum, 0) << name;
    double before = 0;
    for (const auto& [bound, value] : buckets) {
      EXPECT_GE(value, before) << name << " " << bound;
      before = value;
    }
  }

  std::string last_;
};

class ExpositionTest : public ServerTest {
 protected:
  std::string Text() {
    QueryHooks hooks;
    hooks.clients = [] { return size_t{3}; };
    hooks.uptime_s = [] { return int64_t{12}; };
    const Json none = Json::object();
    Caller caller;
    return Exposition(GlobalMetrics(), {*core_, hooks, none, {}, caller});
  }
};

TEST_F(ExpositionTest, HasEveryCounterAndTimerInTheFormatOfPrometheus) {
  GlobalMetrics().Add(Counter::entry_hits, 7);
  GlobalMetrics().AddTime(Timer::lookup, 20'000);
  GlobalMetrics().AddTime(Timer::lookup, 3'000'000'000'000);
  const Parser parsed(Text());
  EXPECT_EQ(parsed.families.size(), kCounters + kTimers + StateMetrics().size());
  EXPECT_EQ(parsed.Value("ingot_entry_hits_total"), 7);
  EXPECT_EQ(parsed.Value("ingot_lookup_seconds_bucket{le=\"1e-05\"}"), 0);
  EXPECT_EQ(parsed.Value("ingot_lookup_seconds_bucket{le=\"2.5e-05\"}"), 1);
  EXPECT_EQ(parsed.Value("ingot_lookup_seconds_bucket{le=\"100\"}"), 1);
  EXPECT_EQ(parsed.Value("ingot_lookup_seconds_bucket{le=\"+Inf\"}"), 2);
  EXPECT_NEAR(parsed.Value("ingot_lookup_seconds_sum"), 3000.00002, 1e-9);
  for (size_t i = 0; i < kCounters; ++i) {
    const std::string name = "ingot_" + std::string(NameOf(static_cast<Counter>(i))) + "_total";
    EXPECT_EQ(parsed.families.at(name).help, HelpOf(static_cast<Counter>(i)));
  }
}

TEST_F(ExpositionTest, SaysWhatStateTheDaemonIsIn) {
  ASSERT_TRUE(Connect()->Compile(MakeCompile("f", "graph f 4")));
  const Parser parsed(Text());
  EXPECT_EQ(parsed.Value("ingot_clients"), 3);
  EXPECT_EQ(parsed.Value("ingot_uptime_seconds"), 12);
  EXPECT_EQ(parsed.Value("ingot_store_values{table=\"entries\"}"), 1);
  EXPECT_GT(parsed.Value("ingot_store_bytes{table=\"artifacts\"}"), 0);
  EXPECT_EQ(parsed.Value("ingot_store_bytes_max"), static_cast<double>(config_.store_bytes_max));
  EXPECT_EQ(parsed.Value("ingot_store_usable"), 1);
  EXPECT_EQ(parsed.Value("ingot_open_artifacts"), 1);
  EXPECT_GT(parsed.Value("ingot_process_resident_bytes"), 1e6);
  EXPECT_GT(parsed.Value("ingot_process_open_files"), 3);
  EXPECT_GT(parsed.Value("ingot_process_cpu_seconds_total"), 0);
  // Nothing is shared: a tier that is not there has no state.
  EXPECT_TRUE(parsed.families.at("ingot_tier_state").series.empty());
}

TEST_F(ExpositionTest, TellsTheTiersOfACluster) {
  ClusterParts parts;
  cache::MemoryStore elsewhere;
  parts.index = std::make_shared<cache::LocalIndex>(elsewhere);
  cache::Trust::Options trust;
  trust.path = dir_.path() + "/trust.toml";
  parts.trust = std::make_shared<cache::Trust>(trust, SystemClock());
  parts.host = "here";
  FakeCompilers compilers;
  Core shared(config_, *store_, graphs_, compilers, *clock_, std::move(parts));
  QueryHooks hooks;
  hooks.clients = [] { return size_t{0}; };
  hooks.uptime_s = [] { return int64_t{0}; };
  const Json none = Json::object();
  Caller caller;
  const Parser parsed(Exposition(GlobalMetrics(), {shared, hooks, none, {}, caller}));
  EXPECT_EQ(parsed.Value("ingot_tier_state{tier=\"index\"}"), 0);
  EXPECT_EQ(parsed.Value("ingot_tier_opened_total{tier=\"blobs\"}"), 0);
  EXPECT_EQ(parsed.Value("ingot_leases{state=\"held\"}"), 0);
}

TEST(MetricsDocument, HasTheTableThatTheCodeHas) {
  const std::string path = INGOT_SOURCE_DIR "/docs/metrics.md";
  std::ostringstream read;
  read << std::ifstream(path).rdbuf();
  std::string text = read.str();
  const std::string begin = "| metric | type | meaning |\n";
  const size_t from = text.find(begin);
  ASSERT_NE(from, std::string::npos) << path;
  const size_t to = text.find("\n\n", from);
  ASSERT_NE(to, std::string::npos) << path;
  const std::string table = text.substr(from, to + 1 - from);
  if (std::getenv("INGOT_UPDATE_DOCUMENTS") != nullptr) {
    text.replace(from, table.size(), MetricsTable());
    std::ofstream(path, std::ios::trunc) << text;
    return;
  }
  EXPECT_EQ(table, MetricsTable()) << "INGOT_UPDATE_DOCUMENTS=1 writes it anew";
}

}  // namespace
}  // namespace ingot::daemon::web
