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
