// SPDX-License-Identifier: Apache-2.0
// The page as people see it: a daemon that holds something, and Chromium (tests/web/check_page.py).
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fake_clock.h"
#include "tests/support/daemon/test_server.h"

namespace ingot::daemon::web {
namespace {

using nlohmann::json;

/// An hour of a daemon's life, at a clock that the test moves; it ends with more than a hundred entries.
class PageTest : public ServerTest {
 protected:
  void SetUp() override {
    config_.web_listen = "127.0.0.1:0";
    config_.web_sample_s = 3600;  // The test takes them.
    clock_ = &moved_;
    ServerTest::SetUp();
  }
  void Call(client::Connection& connection, const std::string& function, const std::string& graph) {
    if (connection.Lookup(*MakeKey(function))->reply.found) return;
    proto::CompileT request = MakeCompile(function, graph);
    AddDependency(request, "attribute", "model.act_fn", 7);
    const auto compiled = connection.Compile(std::move(request));
    EXPECT_TRUE(compiled) << compiled.error().ToText();
  }
  void Live() {
    const auto connection = Connect();
    Call(*connection, "net.Encoder.forward", "graph encoder 4");
    Call(*connection, "<img src=x onerror=alert(1)>", "graph \"<script>alert(1)</script> 4");
    uint32_t noise = 1;
    for (int i = 0; i < 240; ++i) {
      noise = noise * 1664525 + 1013904223;
      // A while in which nobody asks, as at night.
      const bool is_night = i > 150 && i < 170;
      if (i % 2 == 0 && !is_night) {
        Call(*connection, fmt::format("net.layers.{}.Block.forward", i / 2), fmt::format("graph block{} 4", i));
      }
      const uint32_t hits = is_night ? 0 : 20 + noise / 3 % 60 + static_cast<uint32_t>(i);
      for (uint32_t hit = 0; hit < hits; ++hit) EXPECT_TRUE(connection->Lookup(*MakeKey("net.Encoder.forward")));
      moved_.AdvanceSeconds(15);
      core_->recent.Take(core_->flights.size());
    }
    Ignore(connection->Compile(MakeCompile("net.Broken.forward", "graph bad 4")), "it fails");
    EXPECT_TRUE(connection->Lookup(*MakeKey("net.Broken.forward")));
    EXPECT_TRUE(connection->Lookup(*MakeKey("net.Encoder.forward", "GELU")));
  }

  FakeClock moved_{SystemClock().now_s() - 3600};
};

TEST_F(PageTest, SaysWhatThereIsToWhoeverLooks) {
  if (std::system("python3 -c 'import sys, os; sys.path.insert(0, \"" INGOT_SOURCE_DIR "/tests/web\"); import browser;"
                  " sys.exit(browser.find() is None)'") != 0) {
    GTEST_SKIP() << "there is no Chromium here: tools/setup --web installs it";
  }
  Live();
  const Digest slow = DigestOf("slow");
  core_->flights.Join(slow);
  core_->flights.Say(slow, "net.Slow.forward", Flights::Lease::kHeld);
  const Digest awaited = DigestOf("awaited");
  core_->flights.Join(awaited);
  core_->flights.Say(awaited, "net.Awaited.forward", Flights::Lease::kWaits);
  CompileEta eta;
  eta.state = CompileEta::State::kCompiles;
  eta.holder = "build-7";
  eta.due = SteadyNow() + std::chrono::hours(3);
  core_->flights.Expect(awaited, eta);
  const std::string url = json::parse(*Connect()->Query("status"))["web"];
  const std::string key = json::parse(*Connect()->Query("inspect", R"({"key": "net.Encoder.forward"})"))["key"];
  const char* const pictures = std::getenv("INGOT_PAGE_PICTURES");
  if (pictures != nullptr) std::filesystem::create_directories(pictures);
  const std::string command = fmt::format("python3 {}/tests/web/check_page.py '{}' '{}' {}", INGOT_SOURCE_DIR, url,
                                          pictures == nullptr ? dir_.path() : pictures, key);
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command;
  core_->flights.Land(awaited, Error(Code::kCancelled, "the test is over"));
  core_->flights.Land(slow, Error(Code::kCancelled, "the test is over"));
}

}  // namespace
}  // namespace ingot::daemon::web
