// SPDX-License-Identifier: Apache-2.0
#include "client/native/effects/context_settings.h"

#include <ATen/Context.h>
#include <torch/headeronly/version.h>

#include <iterator>
#include <utility>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ingot::client {
namespace {

at::Context& Now() {
  static at::Context& context = at::globalContext();
  return context;
}

template <bool (at::Context::*Getter)() const>
uint64_t Flag() {
  return (Now().*Getter)() ? 1 : 0;
}

/// Which products, convolutions and recurrent layers may round what they multiply. That of another backend stands for
/// those of which nothing is said.
template <at::Float32Op Op>
uint64_t Precision() {
  return static_cast<uint64_t>(Now().float32Precision(at::Float32Backend::MKLDNN, Op));
}

constexpr unsigned kBackendBits = 3;

uint64_t Order() {
  uint64_t order = 0;
  for (const at::SDPBackend one : Now().sDPPriorityOrder())
    order = order << kBackendBits | static_cast<uint64_t>(static_cast<int>(one) + 1);
  return order;
}

uint64_t Invariants() { return Now().checkSparseTensorInvariants().value_or(false) ? 1 : 0; }

uint64_t Engine() { return static_cast<uint64_t>(Now().qEngine()); }

/// Numbers that are nearly none may be taken for none by this thread.
uint64_t Denormals() {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 1U << 15, kDenormalsAreZero = 1U << 6;
  const unsigned control = _mm_getcsr();
  return ((control & kFlushToZero) != 0 ? 2 : 0) | ((control & kDenormalsAreZero) != 0 ? 1 : 0);
#elif defined(__aarch64__)
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control >> 24 & 1;
#else
  return 0;
#endif
}

using Context = at::Context;
constexpr const char* kOtherDevice = "no tensor of a call lies on another device than the CPU";
constexpr const char* kNoAnswer = "no number and no shape depends on it";
constexpr uint64_t (*kNone)() = nullptr;

constexpr ContextSetting kSettings[] = {
    {"setDeterministicAlgorithms", "deterministic", 1, Flag<&Context::deterministicAlgorithms>, "", true},
    {"setDeterministicAlgorithms", "deterministic_warn_only", 1, Flag<&Context::deterministicAlgorithmsWarnOnly>, "",
     true},
    {"setDeterministicFillUninitializedMemory", "deterministic_fill", 1,
     Flag<&Context::deterministicFillUninitializedMemory>, "", true},
    {"setSDPUseFlash", "flash_sdp", 1, Flag<&Context::userEnabledFlashSDP>, "", true},
    {"setSDPUseFA3", "", 0, kNone, kOtherDevice, false},
    {"setSDPUseMemEfficient", "", 0, kNone, kOtherDevice, false},
    {"setSDPUseMath", "math_sdp", 1, Flag<&Context::userEnabledMathSDP>, "", true},
    {"setSDPUseCuDNN", "", 0, kNone, kOtherDevice, false},
    {"setSDPUseOverrideable", "", 0, kNone, kOtherDevice, false},
    {"setAllowFP16BF16ReductionMathSDP", "math_sdp_reduction", 1, Flag<&Context::allowFP16BF16ReductionMathSDP>, "",
     false},
    {"setSDPPriorityOrder", "sdp_order", at::num_sdp_backends * kBackendBits, Order, "", false},
    {"setUserEnabledMkldnn", "mkldnn", 1, Flag<&Context::userEnabledMkldnn>, "", false},
    {"setDeterministicMkldnn", "mkldnn_deterministic", 1, Flag<&Context::deterministicMkldnn>, "", false},
    {"setAllowTF32OneDNN", "mkldnn_tf32", 1, Flag<&Context::allowTF32OneDNN>, "", false},
    {"setUserEnabledNNPACK", "nnpack", 1, Flag<&Context::userEnabledNNPACK>, "", false},
    // By its old name it says the same of each.
    {"setFloat32MatmulPrecision", "matmul_precision", 3, Precision<at::Float32Op::MATMUL>, "", false},
    {"setFloat32Precision", "conv_precision", 3, Precision<at::Float32Op::CONV>, "", false},
    {"setFloat32Precision", "rnn_precision", 3, Precision<at::Float32Op::RNN>, "", false},
    {"setAllowFP16ReductionCPU", "fp16_reduction", 1, Flag<&Context::allowFP16ReductionCPU>, "", false},
    {"setQEngine", "quantized_engine", 4, Engine, "", false},
    {"setCheckSparseTensorInvariants", "sparse_invariants", 1, Invariants, "", false},
    {"setFlushDenormal", "flush_denormal", 2, Denormals, "", true},
    {"setUserEnabledCuDNN", "", 0, kNone, kOtherDevice, false},
    {"setBenchmarkCuDNN", "", 0, kNone, kOtherDevice, false},
    {"setBenchmarkLimitCuDNN", "", 0, kNone, kOtherDevice, false},
    {"setImmediateMiopen", "", 0, kNone, kOtherDevice, false},
    {"setDeterministicCuDNN", "", 0, kNone, kOtherDevice, false},
    {"setCuDNNDepthwiseKernel", "", 0, kNone, kOtherDevice, false},
    {"setLinalgPreferredBackend", "", 0, kNone, kOtherDevice, false},
    {"setBlasPreferredBackend", "", 0, kNone, kOtherDevice, false},
    {"setROCmFAPreferredBackend", "", 0, kNone, kOtherDevice, false},
    {"setAllowTF32CuDNN", "", 0, kNone, kOtherDevice, false},
    {"setAllowTF32CuBLAS", "", 0, kNone, kOtherDevice, false},
    {"setAllowFP16ReductionCuBLAS", "", 0, kNone, kOtherDevice, false},
    {"setAllowBF16ReductionCuBLAS", "", 0, kNone, kOtherDevice, false},
    {"setAllowFP16AccumulationCuBLAS", "", 0, kNone, kOtherDevice, false},
    {"_setSMCarveout_EXPERIMENTAL", "", 0, kNone, kOtherDevice, false},
#if TORCH_VERSION_MINOR >= 14
    {"setPreferCublasltGroupedGemm", "", 0, kNone, kOtherDevice, false},
#endif
#if TORCH_VERSION_MINOR >= 15
    // Kernels that are built ahead of time are in PyTorch's library for CUDA alone.
    {"setAllowNativeAot", "", 0, kNone, kOtherDevice, false},
    {"setMaskUnconditionalNativeAot", "", 0, kNone, kOtherDevice, false},
    {"setSDPUseFA4", "", 0, kNone, kOtherDevice, false},
#endif
    {"setOverrideStaleCaptureStream", "", 0, kNone, kOtherDevice, false},
    {"setWarnOnAccumulateGradStreamMismatch", "", 0, kNone, kOtherDevice, false},
    {"setReleaseWeightsWhenPrepacking", "", 0, kNone, kNoAnswer, false},
    {"setDisplayVmapFallbackWarnings", "", 0, kNone, kNoAnswer, false},
    {"setDefaultMobileCPUAllocator", "", 0, kNone, kNoAnswer, false},
    // Beside the context.
    {"set_num_threads", "", 0, kNone, "sums are promised to the rounding of the entry, not to the order of threads",
     false},
    {"set_default_dtype", "", 0, kNone, "the shape of a call and the key have it of their own", false},
};

constexpr unsigned BitsOfCalls() {
  unsigned bits = 0;
  for (const ContextSetting& one : kSettings) bits += one.each_call ? one.bits : 0;
  return bits;
}
static_assert(BitsOfCalls() <= 16);

}  // namespace

std::span<const ContextSetting> ContextSettings() { return kSettings; }

uint16_t SettingsNow() {
  uint64_t all = 0;
  // Each is a call of its own, that the compiler knows: native calls ask every time.
  const auto add = [&]<size_t kAt>() {
    if constexpr (kSettings[kAt].each_call) all = all << kSettings[kAt].bits | kSettings[kAt].now();
  };
  [&]<size_t... kAll>(std::index_sequence<kAll...>) {
    (add.template operator()<kAll>(), ...);
  }(std::make_index_sequence<std::size(kSettings)>());
  return static_cast<uint16_t>(all);
}

}  // namespace ingot::client
