// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/fake_clock.h"
#include "base/temp_dir.h"

namespace ingot::daemon::web {
namespace {

class ReadTokenTest : public testing::Test {
 protected:
  std::string Write(const std::string& text, mode_t mode = 0600) {
    const std::string path = dir_.path() + "/token";
    std::ofstream(path, std::ios::trunc) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  TempDir dir_;
};

TEST_F(ReadTokenTest, TakesOneLine) {
  EXPECT_EQ(*ReadToken(Write("0123456789abcdef\n")), "0123456789abcdef");
  EXPECT_EQ(*ReadToken(Write("Aa0-._~+/=Aa0-._~")), "Aa0-._~+/=Aa0-._~");
}

TEST_F(ReadTokenTest, RefusesWhatOthersMayUse) {
  for (const mode_t mode : {0640, 0604, 0620, 0601}) {
    const auto token = ReadToken(Write("0123456789abcdef", mode));
    ASSERT_FALSE(token) << mode;
    EXPECT_EQ(token.error().code(), Code::kInvalid);
    EXPECT_NE(token.error().message().find("chmod 600"), std::string::npos);
  }
}

TEST_F(ReadTokenTest, RefusesWhatIsNoTokenWithoutSayingIt) {
  const std::string much(2000, 'a');
  for (const char* text : {"0123456789abcde", "", "0123456789abcdef\nsecond-secret", "0123456789 abcdef", much.c_str(),
                           "0123456789abcdef\r\n"}) {
    const auto token = ReadToken(Write(text));
    ASSERT_FALSE(token) << text;
    EXPECT_EQ(token.error().message().find("0123"), std::string::npos);
    EXPECT_EQ(token.error().message().find("second"), std::string::npos);
  }
  EXPECT_NE(ReadToken(dir_.path()).error().message().find("is no file"), std::string::npos);
  EXPECT_NE(ReadToken(dir_.path() + "/none").error().message().find("No such file"), std::string::npos);
}

TEST(IsSame, ComparesAllOfIt) {
  EXPECT_TRUE(IsSame("", ""));
  EXPECT_TRUE(IsSame("abc", "abc"));
  for (const char* other : {"abd", "bbc", "ab", "abcd", "", "ABC"}) EXPECT_FALSE(IsSame("abc", other)) << other;
}

TEST(Logins, EndWhenTheirTimeIsOver) {
  Config config;
  FakeClock clock;
  Logins logins(config, clock);
  const std::string name = *logins.Add();
  EXPECT_EQ(name.size(), 64u);
  EXPECT_TRUE(logins.Has(name));
  EXPECT_FALSE(logins.Has(""));
  EXPECT_FALSE(logins.Has(std::string(64, '0')));
  clock.AdvanceSeconds(static_cast<int64_t>(config.web_login_s_max) - 1);
  EXPECT_TRUE(logins.Has(name));
  clock.AdvanceSeconds(1);
  EXPECT_FALSE(logins.Has(name));
}

TEST(Logins, AreBoundedAndEndByHand) {
  Config config;
  config.web_logins_max = 2;
  Logins logins(config, SystemClock());
  const std::string first = *logins.Add(), second = *logins.Add(), third = *logins.Add();
  EXPECT_NE(second, third);
  EXPECT_FALSE(logins.Has(first));
  EXPECT_TRUE(logins.Has(second));
  logins.Remove(second);
  EXPECT_FALSE(logins.Has(second));
  EXPECT_TRUE(logins.Has(third));
}

}  // namespace
}  // namespace ingot::daemon::web
