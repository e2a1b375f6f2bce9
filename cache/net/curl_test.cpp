// SPDX-License-Identifier: Apache-2.0
#include "cache/net/curl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ingot::cache {
namespace {

using ::testing::HasSubstr;

TEST(Curl, IsOneForTheProcess) {
  const Result<const Curl*> first = Curl::Load();
  ASSERT_TRUE(first) << first.error().ToText();
  const Result<const Curl*> second = Curl::Load();
  ASSERT_TRUE(second);
  EXPECT_EQ(*first, *second);
  CURL* const easy = (*first)->easy_init();
  ASSERT_NE(easy, nullptr);
  (*first)->easy_cleanup(easy);
}

TEST(Curl, SaysWhatToInstallWhereItIsMissing) {
  const Result<Curl> none = Curl::Open("libcurl-of-nobody.so.4");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kUnavailable);
  EXPECT_THAT(none.error().message(), HasSubstr("libcurl-of-nobody.so.4"));
  EXPECT_THAT(none.error().message(), HasSubstr("install libcurl"));
}

TEST(Curl, RefusesALibraryThatIsAnotherOne) {
  const Result<Curl> other = Curl::Open("libm.so.6");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kUnavailable);
  EXPECT_THAT(other.error().message(), HasSubstr("it has no curl_"));
}

}  // namespace
}  // namespace ingot::cache
