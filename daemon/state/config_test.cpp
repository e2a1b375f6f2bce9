// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/temp_dir.h"

namespace ingot::daemon {
namespace {

TEST(ApplyConfigText, ReadsItsOwnSectionAlone) {
  Config config;
  const Status applied = ApplyConfigText(config,
                                         "workers = 99\n[client]\nworkers = 98\n"
                                         "[daemon]  # ours\nworkers = 3 # three\n"
                                         "store_dir = \"/data/a # b\"\n\n[other]\nworkers = 97\n",
                                         "a.toml");
  ASSERT_TRUE(applied) << applied.error().ToText();
  EXPECT_EQ(config.workers, 3u);
  EXPECT_EQ(config.store_dir, "/data/a # b");
  EXPECT_EQ(config.SourceOf("workers"), "a.toml:5");
  EXPECT_EQ(config.SourceOf("store_dir"), "a.toml:6");
  EXPECT_EQ(config.SourceOf("socket"), "default");
}

// What TOML allows and a line-by-line reader would not.
TEST(ApplyConfigText, ReadsAllOfToml) {
  Config config;
  const Status applied = ApplyConfigText(config,
                                         "daemon.workers = 1_0\n[other]\nlist = [\n1,\n]\n"
                                         "text = \"\"\"\n[daemon]\nworkers = 2\n\"\"\"\n",
                                         "a.toml");
  ASSERT_TRUE(applied) << applied.error().ToText();
  EXPECT_EQ(config.workers, 10u);
  ASSERT_TRUE(ApplyConfigText(config, "[daemon]\nlog_file = '/a\\b'\nsocket = \"/q\\\"s\"\n", "a.toml"));
  EXPECT_EQ(config.log_file, "/a\\b");
  EXPECT_EQ(config.socket, "/q\"s");
}

TEST(ApplyConfigText, NamesFileAndLineOfAMistake) {
  const auto said = [](const char* text) {
    Config config;
    const Status applied = ApplyConfigText(config, text, "a.toml");
    return applied ? std::string("applied") : applied.error().message();
  };
  EXPECT_EQ(said("[daemon]\nworkers = 1\nwokers = 2\n"),
            "a.toml:3: no field 'wokers'; `ingot config` lists the fields there are");
  EXPECT_EQ(said("[daemon]\nworkers = \"many\"\n"),
            "a.toml:2: 'workers' must be a whole number of 0 or more, found 'many'");
  EXPECT_EQ(said("[daemon]\nworkers = -1\n"), "a.toml:2: 'workers' must be a whole number of 0 or more, found '-1'");
  EXPECT_EQ(said("[daemon]\nlog_file = 3\n"), "a.toml:2: 'log_file' must be a text in quotes, found 3");
  EXPECT_EQ(said("daemon = 3\n"), "a.toml:1: 'daemon' must be a table, [daemon]");
  EXPECT_TRUE(said("[daemon]\nworkers\n").starts_with("a.toml:2: ")) << said("[daemon]\nworkers\n");
  EXPECT_TRUE(said("\n\n[client\n").starts_with("a.toml:3: ")) << said("\n\n[client\n");
}

TEST(ApplyConfigFile, TakesNoWordOfWhoCouldSayWhatIsRun) {
  const TempDir dir;
  const std::string file = dir / "ingot.toml";
  std::ofstream(file) << "[daemon]\nworkers = 3\n";
  Config config;
  ASSERT_TRUE(ApplyConfigFile(config, file));
  EXPECT_EQ(config.workers, 3u);
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  const Status open = ApplyConfigFile(config, file);
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message(), testing::HasSubstr("can be written by others"));
  if (geteuid() != 0) return;
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(ApplyConfigFile(config, file));
}

TEST(SetField, TakesTheSpellingOfFlags) {
  Config config;
  ASSERT_TRUE(SetField(config, "idle-exit-s", "60", "--idle-exit-s"));
  EXPECT_EQ(config.idle_exit_s, 60u);
}

TEST(ConfigFields, NamesEveryMemberOnce) {
  Config config;
  size_t size = sizeof(Config::said);
  for (const ConfigField& field : ConfigFields()) {
    const bool text = std::holds_alternative<std::string Config::*>(field.member);
    ASSERT_TRUE(SetField(config, field.name, text ? "value" : "7777", "test")) << field.name;
    EXPECT_EQ(FieldText(config, field), text ? "value" : "7777") << field.name;
    size += text ? sizeof(std::string) : sizeof(uint64_t);
  }
  // A member without a field would keep the sum from matching.
  EXPECT_EQ(size, sizeof(Config));
}

}  // namespace
}  // namespace ingot::daemon
