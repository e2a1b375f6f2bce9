// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <gtest/gtest.h>

namespace ingot::daemon {
namespace {

TEST(ApplyConfigText, ReadsItsOwnSectionAlone) {
  Config config;
  const Status applied = ApplyConfigText(config,
                                         "workers = 99\n[client]\nworkers = 98\n"
                                         "[daemon]  # ours\nworkers = 3 # three\n"
                                         "store_dir = \"/data/a # b\"\n\n[other]\nworkers = 97\n");
  ASSERT_TRUE(applied) << applied.error().ToText();
  EXPECT_EQ(config.workers, 3u);
  EXPECT_EQ(config.store_dir, "/data/a # b");
}

TEST(ApplyConfigText, NamesTheLineOfAMistake) {
  Config config;
  const Status unknown = ApplyConfigText(config, "[daemon]\nworkers = 1\nwokers = 2\n");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message(),
            "line 3: no field 'wokers'; `ingot config` lists the fields there are");
  const Status text = ApplyConfigText(config, "[daemon]\nworkers = many\n");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message(),
            "line 2: 'workers' must be a whole number of 0 or more, found 'many'");
  EXPECT_FALSE(ApplyConfigText(config, "[daemon]\nworkers\n"));
  EXPECT_FALSE(ApplyConfigText(config, "[daemon]\nworkers = -1\n"));
}

TEST(SetField, TakesTheSpellingOfFlags) {
  Config config;
  ASSERT_TRUE(SetField(config, "idle-exit-s", "60"));
  EXPECT_EQ(config.idle_exit_s, 60u);
}

TEST(ConfigFields, NamesEveryMemberOnce) {
  Config config;
  for (const ConfigField& field : ConfigFields()) {
    const bool text = std::holds_alternative<std::string Config::*>(field.member);
    ASSERT_TRUE(SetField(config, field.name, text ? "value" : "7777")) << field.name;
    EXPECT_EQ(FieldText(config, field), text ? "value" : "7777") << field.name;
  }
  // 6 texts and the rest numbers: a member without a field would keep the sum from matching.
  const size_t size = 6 * sizeof(std::string) + (ConfigFields().size() - 6) * sizeof(uint64_t);
  EXPECT_EQ(size, sizeof(Config));
}

}  // namespace
}  // namespace ingot::daemon
