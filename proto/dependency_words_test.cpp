// SPDX-License-Identifier: Apache-2.0
#include "proto/dependency_words.h"

#include <gtest/gtest.h>

namespace ingot::proto {
namespace {

TEST(DependencyWords, SaysEachKindInOneSentence) {
  EXPECT_EQ(DependencyWords("code", "net:Net.forward!code", ""), "proved: code net.Net.forward is unchanged");
  EXPECT_EQ(DependencyWords("global", "helper:FACTOR", "2"), "proved: global helper.FACTOR is still 2");
  EXPECT_EQ(DependencyWords("env", "os:environ._data[b\"MODE\"]", "fast"),
            "proved: environment variable MODE is still fast");
  EXPECT_EQ(DependencyWords("attribute", "self._modules[\"layers\"]._modules[\"0\"].scale", "0.5"),
            "proved: self.layers.0.scale is still 0.5");
  EXPECT_EQ(DependencyWords("class", "net:Net$SIZE", ""), "proved: class net.Net.SIZE is unchanged");
  EXPECT_EQ(DependencyWords("item", "net:TABLE[\"a:b\"]", "3"), "proved: net.TABLE[\"a:b\"] is still 3");
  EXPECT_EQ(DependencyWords("closure", "function%scale", "2.0"), "proved: scale of function is still 2.0");
  EXPECT_EQ(DependencyWords("part", "self.names!len", ""), "proved: the length of self.names is unchanged");
  EXPECT_EQ(DependencyWords("part", "object:0!kind", ""), "proved: the kind of object:0 is unchanged");
  EXPECT_EQ(DependencyWords("custom_op", "my::op", ""), "proved: the implementation of operator my::op is unchanged");
  EXPECT_EQ(DependencyWords("torch", "grad mode", "no_grad"), "proved: torch's grad mode is still no_grad");
}

TEST(DependencyWords, SaysWhatIsAssumed) {
  EXPECT_EQ(DependencyWords("opaque", "self.cache", "deque"), "assumed: self.cache (deque) is unchanged");
  EXPECT_EQ(DependencyWords("opaque", ":forward", ""), "assumed: forward is unchanged");
  EXPECT_FALSE(IsProved("opaque"));
}

TEST(DependencyWords, NamesKindsItDoesNotKnow) {
  EXPECT_EQ(DependencyWords("weather", "sun", "mild"), "proved: weather sun (mild) is unchanged");
}

}  // namespace
}  // namespace ingot::proto
