// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <sstream>

#include "base/processor_flags.h"
#include "compiler/targets/llvm/vector_unit.h"
#include "compiler/targets/x86/cpu_flags.h"

namespace ingot::compiler {
namespace {

constexpr std::string_view kLevel3[] = {"abm",  "avx", "avx2",  "bmi1",   "bmi2",
                                        "f16c", "fma", "movbe", "popcnt", "xsave"};
constexpr std::string_view kLevel4[] = {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"};
// Instruction sets code may be specialised for one day; others (power, virtualisation, tuning
// flags) would split the cache for nothing.
constexpr std::string_view kOthers[] = {"adx",
                                        "aes",
                                        "amx_bf16",
                                        "amx_fp16",
                                        "amx_int8",
                                        "amx_tile",
                                        "avx512_bf16",
                                        "avx512_bitalg",
                                        "avx512_fp16",
                                        "avx512_vbmi2",
                                        "avx512_vnni",
                                        "avx512_vp2intersect",
                                        "avx512_vpopcntdq",
                                        "avx512ifma",
                                        "avx512vbmi",
                                        "avx_ifma",
                                        "avx_ne_convert",
                                        "avx_vnni",
                                        "avx_vnni_int8",
                                        "gfni",
                                        "pclmulqdq",
                                        "sha_ni",
                                        "sse4_1",
                                        "sse4_2",
                                        "ssse3",
                                        "vaes",
                                        "vpclmulqdq"};

bool HasAll(const std::vector<std::string>& flags, std::span<const std::string_view> wanted) {
  return std::ranges::all_of(wanted,
                             [&](std::string_view name) { return std::ranges::find(flags, name) != flags.end(); });
}

}  // namespace

Result<TargetSpec> TargetFromFlags(std::string_view flags_text) {
  std::istringstream stream{std::string(flags_text)};
  const std::vector<std::string> flags{std::istream_iterator<std::string>(stream), {}};
  TargetSpec target;
  for (const std::string& flag : flags) {
    const auto is = [&](std::span<const std::string_view> list) { return std::ranges::find(list, flag) != list.end(); };
    if (is(kLevel3) || is(kLevel4) || is(kOthers)) target.features.push_back(flag);
  }
  std::ranges::sort(target.features);
  const auto repeats = std::ranges::unique(target.features);
  target.features.erase(repeats.begin(), repeats.end());
  if (!HasAll(target.features, kLevel3)) {
    std::string missing;
    for (const std::string_view name : kLevel3) {
      if (std::ranges::find(target.features, name) == target.features.end()) {
        missing += " " + std::string(name);
      }
    }
    return Error(Code::kUnsupported, "this processor lacks x86-64-v3 (AVX2, FMA, F16C); missing:" + missing);
  }
  target.level = HasAll(target.features, kLevel4) ? "x86-64-v4" : "x86-64-v3";
  return target;
}

Result<x86::VectorUnit> x86::UnitOf(const TargetSpec& target) {
  if (target.level == "x86-64-v3") return VectorUnit{32};
  if (target.level == "x86-64-v4") {
    const auto has = [&](const char* name) {
      return std::ranges::find(target.features, name) != target.features.end();
    };
    VectorUnit unit;
    unit.bytes = 64;
    unit.masks_any_width = true;
    unit.dots_bf16 = unit.narrows_bf16 = has("avx512_bf16");
    unit.dots_i16 = has("avx512_vnni");
    unit.tiles_bf16 = has("amx_tile") && has("amx_bf16");
    unit.tiles_i8 = has("amx_tile") && has("amx_int8");
    // A matter of the processor's making, which no flag says. Only Intel's have had this one; there a row of weights
    // came at 6.8 GB/s into the first cache alone and at 15 by way of the second. On AMD's the first way is the faster.
    unit.fetches_by_second_cache = has("avx512_fp16");
    // By the same sign: there 174 GFLOP/s of pairs beside 350 of f32, since tile registers are meant for that. AMD's
    // have twice as many of pairs.
    unit.dots_bf16_fast = unit.dots_bf16 && !has("avx512_fp16");
    return unit;
  }
  return Error(Code::kUnsupported,
               "no code generation for target level \"" + target.level + "\"; use x86-64-v3, x86-64-v4 or reference");
}

Result<TargetSpec> TargetSpec::Host() {
  const auto flags = ProcessorFlags();
  if (flags.empty()) return Error(Code::kUnsupported, "/proc/cpuinfo names no processor flags");
  return TargetFromFlags(fmt::format("{}", fmt::join(flags, " ")));
}

}  // namespace ingot::compiler
