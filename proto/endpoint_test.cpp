// SPDX-License-Identifier: Apache-2.0
#include "proto/endpoint.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/temp_dir.h"

namespace ingot::proto {
namespace {

TEST(ResolveEndpoint, DependsOnTheStoreAlone) {
  const TempDir dir;
  setenv("XDG_RUNTIME_DIR", (dir / "one").c_str(), 1);
  const Result<Endpoint> one = ResolveEndpoint(dir / "store");
  setenv("XDG_RUNTIME_DIR", (dir / "two").c_str(), 1);
  setenv("TMPDIR", (dir / "three").c_str(), 1);
  const Result<Endpoint> two = ResolveEndpoint(dir.path() + "/./store");
  unsetenv("XDG_RUNTIME_DIR");
  unsetenv("TMPDIR");
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->socket, two->socket);
  EXPECT_EQ(one->lock_path(), two->lock_path());
}

TEST(ResolveEndpoint, GivesEachBuildAPlaceOfItsOwn) {
  const TempDir dir;
  const Result<Endpoint> one = ResolveEndpoint(dir / "store", "", "a");
  const Result<Endpoint> two = ResolveEndpoint(dir / "store", "", "b");
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->socket, two->socket);
  EXPECT_NE(one->memory_socket, two->memory_socket);
  EXPECT_NE(one->lock_path(), two->lock_path());
}

TEST(ResolveEndpoint, GoesElsewhereWhereTheStoresPathIsTooLong) {
  const TempDir dir;
  const Result<Endpoint> endpoint = ResolveEndpoint(dir / std::string(120, 'x'));
  ASSERT_TRUE(endpoint) << endpoint.error().ToText();
  EXPECT_EQ(endpoint->socket, endpoint->memory_socket);
  EXPECT_EQ(ResolveEndpoint(dir / "store", "/" + std::string(120, 'x')).error().code(), Code::kInvalid);
}

TEST(ResolveEndpoint, IsAdministeredInNoFolderThatASocketWasSaidToBeIn) {
  const TempDir dir;
  setenv("TMPDIR", (dir / "tmp").c_str(), 1);
  const Result<Endpoint> endpoint = ResolveEndpoint(dir / "store", dir / "given/sock");
  const Result<Endpoint> of_long = ResolveEndpoint(dir / std::string(120, 'x'), dir / "given/sock");
  unsetenv("TMPDIR");
  ASSERT_TRUE(endpoint && of_long);
  EXPECT_EQ(endpoint->AdminSocket(endpoint->socket, true), endpoint->home + "/admin");
  const std::string from_memory = endpoint->AdminSocket(endpoint->memory_socket, false);
  EXPECT_EQ(DirectoryOf(from_memory), endpoint->runtime_dir);
  // Of two that serve one store from memory, at other sockets, each has its own.
  EXPECT_NE(endpoint->AdminSocket(dir / "other", false), from_memory);
  EXPECT_EQ(DirectoryOf(of_long->AdminSocket(of_long->socket, true)), of_long->runtime_dir);
}

TEST(ResolveEndpoint, ExpectsTheDaemonOfTheUserThatIsNamed) {
  const TempDir dir;
  unsetenv("INGOT_DAEMON_UID");
  EXPECT_EQ(ResolveEndpoint(dir / "store")->daemon_uid, geteuid());
  setenv("INGOT_DAEMON_UID", "10001", 1);
  EXPECT_EQ(ResolveEndpoint(dir / "store")->daemon_uid, 10001u);
  for (const char* wrong : {"root", "-1", "1 2", "99999999999", "1x"}) {
    setenv("INGOT_DAEMON_UID", wrong, 1);
    EXPECT_EQ(ResolveEndpoint(dir / "store").error().code(), Code::kInvalid) << wrong;
  }
  unsetenv("INGOT_DAEMON_UID");
}

TEST(IsUntouched, OnceSomethingIsThereItIsNot) {
  const TempDir dir;
  const Result<Endpoint> endpoint = ResolveEndpoint(dir / "store");
  ASSERT_TRUE(endpoint);
  EXPECT_TRUE(IsUntouched(*endpoint));
  EXPECT_FALSE(std::filesystem::exists(dir / "store"));
  std::filesystem::create_directories(endpoint->home);
  EXPECT_TRUE(IsUntouched(*endpoint));
  std::ofstream(endpoint->lock_path()) << "x";
  EXPECT_FALSE(IsUntouched(*endpoint));
}

}  // namespace
}  // namespace ingot::proto
