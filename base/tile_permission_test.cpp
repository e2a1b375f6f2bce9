// SPDX-License-Identifier: Apache-2.0
#include "base/tile_permission.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/processor_flags.h"
#include "base/temp_dir.h"

namespace ingot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kGetSupported = 0x1021, kRequest = 0x1023;
constexpr uint64_t kTileData = 18;

/// A kernel that has `supported` to give, and answers requests with `answer`.
struct Kernel {
  uint64_t supported = uint64_t{1} << kTileData;
  int answer = 0;
  std::vector<int> asked = {};

  ArchPrctl Ask() {
    return [this](int operation, uint64_t argument) {
      asked.push_back(operation);
      if (operation == kGetSupported) {
        *reinterpret_cast<uint64_t*>(argument) = supported;
        return 0;
      }
      EXPECT_EQ(operation, kRequest);
      EXPECT_EQ(argument, kTileData);
      return answer;
    };
  }
};

TEST(TilePermission, IsAskedForOnce) {
  Kernel kernel;
  TilePermission permission(kernel.Ask());
  EXPECT_TRUE(permission.Get());
  EXPECT_TRUE(permission.Get());
  EXPECT_THAT(kernel.asked, ElementsAre(kRequest));
}

TEST(TilePermission, IsAskedForAgainWhereItWasRefused) {
  Kernel kernel;
  kernel.answer = EPERM;
  TilePermission permission(kernel.Ask());
  const Status refused = permission.Get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kIncompatible);
  EXPECT_THAT(refused.error().message(), testing::StartsWith("amx-refused: "));
  EXPECT_THAT(refused.error().message(), HasSubstr("not permitted"));
  kernel.answer = ENOSPC;
  EXPECT_THAT(permission.Get().error().message(), HasSubstr("signal stack"));
  kernel.answer = 0;
  EXPECT_TRUE(permission.Get());
  EXPECT_THAT(kernel.asked, ElementsAre(kRequest, kRequest, kRequest));
}

TEST(TilePermission, IsAnsweredByLinux) {
  TilePermission permission(AskLinux);
  // What a kernel has to give, it gives.
  EXPECT_EQ(permission.IsToBeHad(), bool(permission.Get()));
}

class Flags : public testing::Test {
 protected:
  std::set<std::string, std::less<>> Read(Kernel& kernel, std::string_view cpuinfo) {
    std::filesystem::create_directories(dir_ / "proc");
    std::ofstream(dir_ / "proc/cpuinfo") << cpuinfo;
    return ProcessorFlags(TilePermission(kernel.Ask()), dir_.path());
  }
  TempDir dir_;
};

TEST_F(Flags, AreThoseOfTheFirstProcessor) {
  Kernel kernel;
  EXPECT_THAT(Read(kernel, "processor\t: 0\nflags\t\t: fpu avx2 fma\nbugs\t:\nflags\t\t: other\n"),
              ElementsAre("avx2", "fma", "fpu"));
  EXPECT_THAT(kernel.asked, testing::IsEmpty()) << "nobody has a use for tiles here";
  EXPECT_THAT(Read(kernel, ""), testing::IsEmpty());
}

TEST_F(Flags, HaveTilesWhereTheKernelGivesThem) {
  constexpr std::string_view kText = "flags\t\t: amx_bf16 amx_int8 amx_tile avx2\n";
  Kernel kernel;
  EXPECT_THAT(Read(kernel, kText), ElementsAre("amx_bf16", "amx_int8", "amx_tile", "avx2"));
  kernel.supported = 0;
  EXPECT_THAT(Read(kernel, kText), ElementsAre("avx2"));
  EXPECT_THAT(kernel.asked, testing::Each(kGetSupported)) << "looking asks for nothing";
}

TEST_F(Flags, HaveNoTilesWhereTheKernelDoesNotKnowThem) {
  std::filesystem::create_directories(dir_ / "proc");
  std::ofstream(dir_ / "proc/cpuinfo") << "flags : amx_tile avx2\n";
  const TilePermission old([](int, uint64_t) { return EINVAL; });
  EXPECT_THAT(ProcessorFlags(old, dir_.path()), ElementsAre("avx2"));
}

}  // namespace
}  // namespace ingot
