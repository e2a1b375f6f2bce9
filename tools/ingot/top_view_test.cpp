// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/top_view.h"

#include <gtest/gtest.h>

#include "tools/ingot/terminal.h"

namespace ingot::tools {
namespace {

Json Overview() {
  return Json::parse(R"({
    "now": 1000, "pid": 42, "version": "0.1.0", "uptime_s": 90, "clients": 3, "workers": 2,
    "open_artifacts": 5, "open_artifact_bytes": 2048, "hits": 90, "misses": 10, "compiles": 9,
    "compile_failures": 1, "compiles_pending": 2, "flights": 2,
    "oldest_flights": [{"graph_key": "0123456789abcdef0123456789abcdef", "function": "model.decode",
                        "age_s": 3.25, "waiters": 2, "lease": "waits", "holder": "host1", "state": "compiles",
                        "left_s": 11.5},
                       {"graph_key": "1123456789abcdef0123456789abcdef", "function": "f", "age_s": 1,
                        "waiters": 1, "lease": "none", "holder": "", "state": "", "left_s": null}],
    "store": {"bytes": 1048576, "bytes_max": 4194304, "entries": 12, "trouble": ""},
    "cluster": {"unsent": 4, "can_write": true, "trust_trouble": "",
                "tiers": [{"tier": "index", "place": "redis://r", "breaker": "closed", "why": ""},
                          {"tier": "blobs", "place": "s3://b", "breaker": "open", "why": "timeout"}]},
    "load": {"processors": 4, "busy": 3.52, "others": 0.5, "running": 2, "clients_sharing": 2,
             "clients": [{"pid": 71, "program": "python3 serve.py", "running": 1, "threads": 2.5, "processors": 2.96,
                          "share": 1.75, "calls_per_s": 120.4},
                         {"pid": 72, "program": "crowd", "running": 1, "threads": 1, "processors": 0.02, "share": 3.5,
                          "calls_per_s": 0}]},
    "newest_misses": [{"when": 990, "function": "model.decode", "reason": "key_differs", "why": "other sizes"},
                      {"when": 900, "function": "f", "reason": "never_stored", "why": "nothing is stored"}]})");
}

class TopFrameTest : public testing::Test {
 protected:
  TopFrameTest() { SetColorMode(ColorMode::kNever); }
  ~TopFrameTest() override { SetColorMode(ColorMode::kAuto); }
};

TEST_F(TopFrameTest, ShowsAllThatADaemonSays) {
  EXPECT_EQ(TopFrame(Overview(), std::nullopt, 0, 0),
            "ingotd 0.1.0  pid 42  up 90.0 s  clients 3  workers 2  memory files 5 (2.0 KiB)\n"
            "look-ups  100; 90.0 % hit since the start\n"
            "compiles  9; 1 failed; 2 wait\n"
            "store     1.0 MiB of 4.0 MiB  #####...............  25 %  12 entries\n"
            "cluster   4 wait to be sent\n"
            "  index   answers  redis://r\n"
            "  blobs   left alone  s3://b: timeout\n"
            "flights   2\n"
            "GRAPH         FUNCTION        AGE  WAITING  STATE     DONE IN  LEASE  HOLDER\n"
            "0123456789ab  model.decode  3.2 s        2  compiles  ~11.5 s  waits  host1\n"
            "1123456789ab  f             1.0 s        1  -               -  -      -\n"
            "load      3.5 of 4 processors busy, 0.5 of them with other things; 2.0 calls run\n"
            "PID  PROGRAM           RUNNING  THREADS  PROCESSORS  SHARE  CALLS/S\n"
            " 71  python3 serve.py      1.0      2.5         3.0    1.8    120.4\n"
            " 72  crowd                 1.0      1.0         0.0    3.5      0.0\n"
            "NEWEST MISSES  WHEN       REASON        WHY\n"
            "model.decode   10 s ago   key_differs   other sizes\n"
            "f              100 s ago  never_stored  nothing is stored\n");
}

TEST_F(TopFrameTest, SaysRatesOnceItHasTwo) {
  Json later = Overview();
  later["hits"] = 96;
  later["misses"] = 14;
  later["compiles"] = 10;
  const std::string frame = TopFrame(later, Overview(), 2, 0);
  EXPECT_NE(frame.find("look-ups  110, 5.0/s of which 60.0 % hit; 87.3 % hit since the start\n"), frame.npos) << frame;
  EXPECT_NE(frame.find("compiles  10, 0.5/s; 1 failed"), frame.npos) << frame;
}

TEST_F(TopFrameTest, LeavesOutWhatADaemonDoesNotSay) {
  EXPECT_EQ(TopFrame(Json{{"pid", 7}}, std::nullopt, 0, 0),
            "ingotd   pid 7  up 0 ms  clients 0  workers ?  memory files 0 (0 B)\n"
            "look-ups  0; - hit since the start\n"
            "compiles  0; none failed; 0 wait\n"
            "flights   0\n");
}

TEST_F(TopFrameTest, ShowsOfManyClientsThoseThatUseMost) {
  Json now = Overview();
  for (int i = 0; i < 30; ++i) now["load"]["clients"].push_back(now["load"]["clients"][1]);
  now["load"]["clients_sharing"] = 140;
  now["load"]["busy"] = nullptr;
  const std::string frame = TopFrame(now, std::nullopt, 0, 0);
  EXPECT_NE(frame.find("load      ? of 4 processors busy"), frame.npos) << frame;
  EXPECT_NE(frame.find("3.5      0.0\nand 130 more\n"), frame.npos) << frame;
  EXPECT_EQ(std::count(frame.begin(), frame.end(), '\n'), 27) << frame;
  now["load"]["clients_sharing"] = 0;
  EXPECT_EQ(TopFrame(now, std::nullopt, 0, 0).find("load "), frame.npos) << "nobody runs calls";
}

TEST_F(TopFrameTest, FitsTheTerminal) {
  for (const size_t lines : {1, 5, 11, 12, 13, 40}) {
    const std::string frame = TopFrame(Overview(), std::nullopt, 0, lines);
    EXPECT_LE(static_cast<size_t>(std::count(frame.begin(), frame.end(), '\n')), lines);
    EXPECT_TRUE(frame.ends_with('\n'));
  }
}

TEST_F(TopFrameTest, LetsNoNameDriveTheTerminal) {
  Json evil = Overview();
  evil["newest_misses"][0]["function"] = "f\x1b[2J\n";
  const std::string frame = TopFrame(evil, std::nullopt, 0, 0);
  EXPECT_EQ(frame.find('\x1b'), frame.npos);
  EXPECT_NE(frame.find("f\\x1b[2J\\x0a"), frame.npos) << frame;
}

}  // namespace
}  // namespace ingot::tools
