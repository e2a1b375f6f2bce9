// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ingot::cache {
namespace {

constexpr const char* kError =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- > -->\n<Error xmlns='a>b' x=\"</Error>\">\n  "
    "<Code>NoSuchKey</Code>"
    "<Message>a &lt;b&gt; &amp; &#252;&#x20AC;<![CDATA[<raw>]]></Message><Empty/><Empty2 /></Error>\n";

TEST(S3XmlTest, ReadsWhatServersSay) {
  const auto xml = ParseXml(kError);
  ASSERT_TRUE(xml) << xml.error().ToText();
  EXPECT_EQ(xml->name, "Error");
  EXPECT_EQ(xml->TextOf("Code"), "NoSuchKey");
  EXPECT_EQ(xml->TextOf("Message"), "a <b> & \u00fc\u20ac<raw>");
  EXPECT_EQ(xml->TextOf("Empty"), "");
  EXPECT_EQ(xml->TextOf("Absent"), "");
  EXPECT_EQ(xml->children.size(), 4u);
}

TEST(S3XmlTest, EveryBeginningIsRefused) {
  const std::string_view text = kError;
  for (size_t size = 0; size + 1 < text.size(); ++size) {
    const auto xml = ParseXml(text.substr(0, size));
    ASSERT_FALSE(xml) << text.substr(0, size);
    EXPECT_EQ(xml.error().code(), Code::kCorrupt);
  }
}

TEST(S3XmlTest, EveryFlippedBitIsReadOrRefused) {
  const std::string text = kError;
  size_t refused = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << bit);
      const auto xml = ParseXml(flipped);
      if (!xml) {
        ++refused;
        EXPECT_EQ(xml.error().code(), Code::kCorrupt);
      }
    }
  }
  EXPECT_GT(refused, 100u);
}

TEST(S3XmlTest, NothingGrowsOrRecursWithoutEnd) {
  EXPECT_FALSE(ParseXml("<!DOCTYPE a [<!ENTITY b \"bb\">]><a>&b;</a>"));
  EXPECT_FALSE(ParseXml("<a>&b;</a>"));
  EXPECT_FALSE(ParseXml("<a>&#0;</a>"));
  EXPECT_FALSE(ParseXml("<a>&#xD800;</a>"));
  EXPECT_FALSE(ParseXml("<a>&#x110000;</a>"));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  EXPECT_FALSE(ParseXml(deep));
  std::string wide = "<a>";
  for (int i = 0; i < 100'000; ++i) wide += "<b/>";
  EXPECT_FALSE(ParseXml(wide + "</a>"));
  EXPECT_FALSE(ParseXml("<a></a><b></b>"));
  EXPECT_FALSE(ParseXml("<a></b>"));
}

TEST(S3XmlTest, WhatIsEscapedReadsBack) {
  const std::string text = "<a> & \"b\" 'c' > \xC3\xBC";
  EXPECT_EQ(ParseXml("<x>" + EscapeXml(text) + "</x>")->text, text);
}

}  // namespace
}  // namespace ingot::cache
