// SPDX-License-Identifier: Apache-2.0
#include "daemon/entry_index.h"

#include <gtest/gtest.h>

namespace ingot::daemon {
namespace {

cache::Key KeyOf(const std::string& state, const std::string& inputs, const std::string& target) {
  const auto component = [](const char* name, const std::string& text) {
    return cache::Component{name, {{"item", DigestOf(text), text}}};
  };
  return {{component("module_state", state), component("inputs", inputs),
           component("target", target)}};
}

TEST(EntryIndex, PutsThoseFirstThatShareMostComponents) {
  EntryIndex index;
  const cache::Key near = KeyOf("SiLU", "f32", "avx2");
  const cache::Key nearer = KeyOf("GELU", "f64", "avx2");
  const cache::Key far = KeyOf("SiLU", "f64", "avx512");
  for (const cache::Key* key : {&far, &near, &nearer}) index.Add(key->ToDigest(), "f", *key);
  index.Add(KeyOf("GELU", "f32", "avx2").ToDigest(), "g", KeyOf("GELU", "f32", "avx2"));
  const cache::Key asked = KeyOf("GELU", "f64", "avx3");
  EXPECT_EQ(index.Closest("f", asked, 1), std::vector<Digest>{nearer.ToDigest()});
  const std::vector<Digest> all = index.Closest("f", asked, 9);
  EXPECT_EQ(all, (std::vector<Digest>{nearer.ToDigest(), far.ToDigest(), near.ToDigest()}));
  EXPECT_TRUE(index.Closest("h", asked, 9).empty());
}

TEST(EntryIndex, NeverNamesTheKeyItself) {
  EntryIndex index;
  const cache::Key key = KeyOf("SiLU", "f32", "avx2");
  index.Add(key.ToDigest(), "f", key);
  EXPECT_TRUE(index.Closest("f", key, 9).empty());
}

TEST(EntryIndex, ForgetsWhatIsRemoved) {
  EntryIndex index;
  const cache::Key a = KeyOf("SiLU", "f32", "avx2");
  const cache::Key b = KeyOf("SiLU", "f64", "avx2");
  index.Add(a.ToDigest(), "pkg.f", a);
  index.Add(a.ToDigest(), "pkg.f", a);
  index.Add(b.ToDigest(), "pkg.f", b);
  EXPECT_EQ(index.FunctionOf(a.ToDigest()), "pkg.f");
  EXPECT_EQ(index.NamedLike("kg.").size(), 2u);
  index.Remove(a.ToDigest());
  index.Remove(a.ToDigest());
  EXPECT_EQ(index.FunctionOf(a.ToDigest()), "");
  EXPECT_EQ(index.Closest("pkg.f", a, 9), std::vector<Digest>{b.ToDigest()});
  EXPECT_EQ(index.StartingWith(b.ToDigest().ToHex().substr(0, 8)).size(), 1u);
  index.Remove(b.ToDigest());
  EXPECT_TRUE(index.All().empty());
}

}  // namespace
}  // namespace ingot::daemon
