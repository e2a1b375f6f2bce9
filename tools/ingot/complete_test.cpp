// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/complete.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>

namespace ingot::tools {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CompleteTest : public testing::Test {
 protected:
  CompleteTest() {
    app_.add_option("--store", text_, "Directory")->type_name("FILE");
    app_.add_option("--color", text_, "Colours")->type_name("auto|always|never");
    CLI::App* list = app_.add_subcommand("list", "Stored entries")->fallthrough();
    list->add_option("function", text_, "Which")->type_name("FUNCTION");
    list->add_option("-s,--sort", text_, "By what")->type_name("used|created|size");
    list->add_flag("-r,--reverse", flag_, "The other way round");
    CLI::App* diff = app_.add_subcommand("diff", "Two entries")->fallthrough();
    diff->add_option("a", text_, "One")->type_name("KEY");
    diff->add_option("b", text_, "Another")->type_name("KEY");
    CLI::App* out = app_.add_subcommand("export", "A bundle")->fallthrough();
    out->add_option("keys", texts_, "Which")->type_name("KEY");
    out->add_option("-o,--output", text_, "Where")->type_name("FILE");
    CLI::App* daemon = app_.add_subcommand("daemon", "The daemon")->fallthrough();
    daemon->add_subcommand("start", "Starts it");
    daemon->add_subcommand("stop", "Stops it");
    app_.add_subcommand("secret", "Nobody's")->group("");
  }

  std::vector<std::string> Words(const std::vector<std::string>& line) {
    const WordSource stored = [](const std::string& kind, const std::string& prefix) {
      return std::vector<Candidate>{{"<" + kind + ":" + prefix + ">", ""}};
    };
    std::vector<std::string> out;
    for (const Candidate& one : Complete(app_, line, stored)) out.push_back(one.text);
    return out;
  }

  CLI::App app_{"test", "ingot"};
  std::string text_;
  std::vector<std::string> texts_;
  bool flag_ = false;
};

TEST_F(CompleteTest, OffersVerbsByTheirBeginning) {
  EXPECT_THAT(Words({""}), ElementsAre("list", "diff", "export", "daemon"));
  EXPECT_THAT(Words({"d"}), ElementsAre("diff", "daemon"));
  EXPECT_THAT(Words({"daemon", "st"}), ElementsAre("start", "stop"));
  EXPECT_THAT(Words({"zzz"}), IsEmpty());
  EXPECT_THAT(Words({"list", "--"}), ElementsAre("--help", "--sort", "--reverse", "--store", "--color"));
}

TEST_F(CompleteTest, OffersOptionsOfTheVerbAndOfAll) {
  EXPECT_THAT(Words({"list", "--s"}), testing::UnorderedElementsAre("--sort", "--store"));
  EXPECT_THAT(Words({"--c"}), ElementsAre("--color"));
}

TEST_F(CompleteTest, OffersWhatAnOptionTakes) {
  EXPECT_THAT(Words({"list", "--sort", ""}), ElementsAre("used", "created", "size"));
  EXPECT_THAT(Words({"list", "-s", "c"}), ElementsAre("created"));
  EXPECT_THAT(Words({"list", "--sort=u"}), ElementsAre("--sort=used"));
  EXPECT_THAT(Words({"--color", "a"}), ElementsAre("auto", "always"));
  EXPECT_THAT(Words({"list", "--color", "n"}), ElementsAre("never"));
  EXPECT_THAT(Words({"--store", "/tm"}), ElementsAre(":files"));
  EXPECT_THAT(Words({"export", "-o", ""}), ElementsAre(":files"));
}

TEST_F(CompleteTest, OffersWhatIsStoredWhereAKeyOrAFunctionStands) {
  EXPECT_THAT(Words({"list", "mo"}), ElementsAre("<FUNCTION:mo>"));
  EXPECT_THAT(Words({"--store", "/tmp", "list", "mo"}), ElementsAre("<FUNCTION:mo>"));
  EXPECT_THAT(Words({"list", "--reverse", "mo"}), ElementsAre("<FUNCTION:mo>"));
  EXPECT_THAT(Words({"list", "--sort", "used", "mo"}), ElementsAre("<FUNCTION:mo>"));
  EXPECT_THAT(Words({"list", "model", ""}), IsEmpty()) << "it takes one";
  EXPECT_THAT(Words({"diff", "3f", "7"}), ElementsAre("<KEY:7>"));
  EXPECT_THAT(Words({"diff", "3f", "7", ""}), IsEmpty());
  EXPECT_THAT(Words({"export", "3f", "7", "9"}), ElementsAre("<KEY:9>")) << "it takes many";
  EXPECT_THAT(Words({"list", "--", "--x"}), ElementsAre("<FUNCTION:--x>"));
}

TEST(PlacesIn, FindsTheDaemonThatTheLineNames) {
  std::string store = "/a", socket = "/b";
  PlacesIn({"list", ""}, store, socket);
  EXPECT_EQ(store, "/a");
  PlacesIn({"--store", "/c", "list", "--socket=/d", ""}, store, socket);
  EXPECT_EQ(store, "/c");
  EXPECT_EQ(socket, "/d");
  PlacesIn({"list", "--store", "/hal"}, store, socket);
  EXPECT_EQ(store, "/c") << "that one is being written";
}

TEST(CompletionScript, NamesTheProgramAndNoOtherShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = CompletionScript(shell, "ingot");
    ASSERT_TRUE(script);
    EXPECT_NE(script->find("__complete"), script->npos);
    EXPECT_EQ(script->find("PROGRAM"), script->npos);
  }
  EXPECT_EQ(CompletionScript("csh", "ingot").error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace ingot::tools
