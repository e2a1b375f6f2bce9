// SPDX-License-Identifier: Apache-2.0
#include "client/native/context_settings.h"

#include <ATen/Context.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ingot::client {
namespace {

at::Context& Now() { return at::globalContext(); }

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
    {"setDeterministicAlgorithms", "deterministic", 1, Flag<&Context::deterministicAlgorithms>, ""},
    {"setDeterministicAlgorithms", "deterministic_warn_only", 1, Flag<&Context::deterministicAlgorithmsWarnOnly>, ""},
    {"setDeterministicFillUninitializedMemory", "deterministic_fill", 1,
     Flag<&Context::deterministicFillUninitializedMemory>, ""},
    {"setSDPUseFlash", "flash_sdp", 1, Flag<&Context::userEnabledFlashSDP>, ""},
    {"setSDPUseFA3", "fa3_sdp", 1, Flag<&Context::userEnabledFA3SDP>, ""},
    {"setSDPUseMemEfficient", "mem_efficient_sdp", 1, Flag<&Context::userEnabledMemEfficientSDP>, ""},
    {"setSDPUseMath", "math_sdp", 1, Flag<&Context::userEnabledMathSDP>, ""},
    {"setSDPUseCuDNN", "cudnn_sdp", 1, Flag<&Context::userEnabledCuDNNSDP>, ""},
    {"setSDPUseOverrideable", "overrideable_sdp", 1, Flag<&Context::userEnabledOverrideableSDP>, ""},
    {"setAllowFP16BF16ReductionMathSDP", "math_sdp_reduction", 1, Flag<&Context::allowFP16BF16ReductionMathSDP>, ""},
    {"setSDPPriorityOrder", "sdp_order", at::num_sdp_backends * kBackendBits, Order, ""},
    {"setUserEnabledMkldnn", "mkldnn", 1, Flag<&Context::userEnabledMkldnn>, ""},
    {"setDeterministicMkldnn", "mkldnn_deterministic", 1, Flag<&Context::deterministicMkldnn>, ""},
    {"setAllowTF32OneDNN", "mkldnn_tf32", 1, Flag<&Context::allowTF32OneDNN>, ""},
    {"setUserEnabledNNPACK", "nnpack", 1, Flag<&Context::userEnabledNNPACK>, ""},
    // By its old name it says the same of each.
    {"setFloat32MatmulPrecision", "matmul_precision", 3, Precision<at::Float32Op::MATMUL>, ""},
    {"setFloat32Precision", "conv_precision", 3, Precision<at::Float32Op::CONV>, ""},
    {"setFloat32Precision", "rnn_precision", 3, Precision<at::Float32Op::RNN>, ""},
    {"setAllowFP16ReductionCPU", "fp16_reduction", 1, Flag<&Context::allowFP16ReductionCPU>, ""},
    {"setQEngine", "quantized_engine", 4, Engine, ""},
    {"setCheckSparseTensorInvariants", "sparse_invariants", 1, Invariants, ""},
    {"setFlushDenormal", "flush_denormal", 2, Denormals, ""},
    {"setUserEnabledCuDNN", "", 0, kNone, kOtherDevice},
    {"setBenchmarkCuDNN", "", 0, kNone, kOtherDevice},
    {"setBenchmarkLimitCuDNN", "", 0, kNone, kOtherDevice},
    {"setImmediateMiopen", "", 0, kNone, kOtherDevice},
    {"setDeterministicCuDNN", "", 0, kNone, kOtherDevice},
    {"setCuDNNDepthwiseKernel", "", 0, kNone, kOtherDevice},
    {"setLinalgPreferredBackend", "", 0, kNone, kOtherDevice},
    {"setBlasPreferredBackend", "", 0, kNone, kOtherDevice},
    {"setROCmFAPreferredBackend", "", 0, kNone, kOtherDevice},
    {"setAllowTF32CuDNN", "", 0, kNone, kOtherDevice},
    {"setAllowTF32CuBLAS", "", 0, kNone, kOtherDevice},
    {"setAllowFP16ReductionCuBLAS", "", 0, kNone, kOtherDevice},
    {"setAllowBF16ReductionCuBLAS", "", 0, kNone, kOtherDevice},
    {"setAllowFP16AccumulationCuBLAS", "", 0, kNone, kOtherDevice},
    {"_setSMCarveout_EXPERIMENTAL", "", 0, kNone, kOtherDevice},
    {"setOverrideStaleCaptureStream", "", 0, kNone, kOtherDevice},
    {"setWarnOnAccumulateGradStreamMismatch", "", 0, kNone, kOtherDevice},
    {"setReleaseWeightsWhenPrepacking", "", 0, kNone, kNoAnswer},
    {"setDisplayVmapFallbackWarnings", "", 0, kNone, kNoAnswer},
    {"setDefaultMobileCPUAllocator", "", 0, kNone, kNoAnswer},
    // Beside the context.
    {"set_num_threads", "", 0, kNone, "sums are promised to the rounding of the entry, not to the order of threads"},
    {"set_default_dtype", "", 0, kNone, "the shape of a call and the key have it of their own"},
};

constexpr unsigned BitsOfAll() {
  unsigned bits = 0;
  for (const ContextSetting& one : kSettings) bits += one.bits;
  return bits;
}
static_assert(BitsOfAll() <= 64);

}  // namespace

std::span<const ContextSetting> ContextSettings() { return kSettings; }

uint64_t SettingsNow() {
  uint64_t all = 0;
  for (const ContextSetting& one : kSettings) {
    if (one.now != nullptr) all = all << one.bits | (one.now() & ((uint64_t{1} << one.bits) - 1));
  }
  return all;
}

}  // namespace ingot::client
