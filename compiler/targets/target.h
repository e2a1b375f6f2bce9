// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "compiler/loop/kernel.h"
#include "compiler/loop/schedule.h"
#include "compiler/targets/launch_shape.h"
#include "compiler/targets/outlined_code.h"
#include "compiler/targets/target_spec.h"
#include "kernels/abi.h"

namespace ingot::compiler {

/// Relocatable code of one kernel: exports `symbol`, imports what it calls.
struct Object {
  std::string symbol;                 ///< "ingot_k_" + first 16 hex digits of the kernel digest
  Buffer bytes;
  loop::Schedule schedule;            ///< what the code was made of, beside the kernel
  LaunchShape launch;
  std::vector<std::string> features;  ///< of the machine, beyond its level
  std::vector<std::shared_ptr<const OutlinedCode>> calls = {};
};

/// Objects in this process, where they can be called: for the proof and for timing. Several threads may run what one
/// has added.
class Runner {
 public:
  virtual ~Runner() = default;
  /// One that is there already stays.
  virtual Status Add(const Object& object) = 0;
  /// The kernel's status (kernels/abi.h). kNotFound: no object that was added exports the symbol.
  virtual Result<int32_t> Run(const std::string& symbol, const IngotCallFrame& frame) = 0;
};

/// What is known of a machine beyond its name, for those who read schedules.
struct TargetDescription {
  std::string name;          ///< "x86-64-v4 avx512_bf16"
  unsigned vector_bytes = 0; ///< of a register; 0: it has no vectors
};

/// A machine that kernels are made for. Nothing above it names one: fusion hands over loops, the plan launches tasks.
/// Thread-safe, and deterministic: equal kernels, schedules and specs give equal bytes. docs/targets.md adds one.
class Target {
 public:
  virtual ~Target() = default;
  /// kUnsupported names the levels there are.
  static Result<std::unique_ptr<Target>> Make(const TargetSpec& spec);

  virtual TargetDescription Describe() const = 0;
  /// The best schedule for a kernel, as far as is known.
  virtual loop::Schedule BestSchedule(const loop::Kernel& kernel) const = 0;
  /// Others that may be faster on some machine. All add up in the same order as the best, so that which one is taken is
  /// a matter of time alone (compiler/measure.h).
  virtual std::vector<loop::Schedule> OtherSchedules(const loop::Kernel& kernel, const loop::Schedule& best) const = 0;
  /// The best one first, then the others.
  std::vector<loop::Schedule> Schedules(const loop::Kernel& kernel) const;
  /// kUnsupported names an operation that the target has no code for.
  virtual Result<Object> Emit(const loop::Kernel& kernel, const loop::Schedule& schedule) const = 0;
  /// What Emit makes, as text: what the code is made of, or (`is_machine`) the machine's own language.
  virtual Result<std::string> Text(const loop::Kernel& kernel, const loop::Schedule& schedule,
                                   bool is_machine) const = 0;
  /// The section of an artifact that holds the objects.
  virtual Result<Buffer> Link(std::span<const Object> objects) const = 0;
  /// To run these objects in, which are still to be added, or of all of them those that anybody asks for. kUnsupported
  /// where this machine cannot run the target's code, or lacks a feature that one of them uses.
  virtual Result<std::unique_ptr<Runner>> Load(std::span<const Object> objects) const = 0;
  /// Whether code of this target multiplies matrices of these types at least about as fast as PyTorch's libraries do.
  virtual bool TakesProduct(guards::DType dtype, const guards::Dim& rows) const = 0;
  /// The sizes of a kernel for which code of its own gains while they are short.
  virtual guards::Dims ShortExtents(const loop::Kernel& kernel) const = 0;
};

/// Code of each kernel by its schedule, in their order, on `threads` threads (0: one for each core).
Result<std::vector<Object>> EmitAll(const Target& target, std::span<const loop::Kernel> kernels,
                                    std::span<const loop::Schedule> schedules, unsigned threads);
/// By each kernel's best schedule.
Result<std::vector<Object>> EmitAll(const Target& target, std::span<const loop::Kernel> kernels, unsigned threads);

/// Makes what most compiles begin with: the code of linear layers in f32 for any sizes, and whatever the target loads
/// for its first kernel. For who has nothing else to do yet; other threads may compile meanwhile.
Status WarmUp(const Target& target);

/// The symbols of a kernel whose values change what code can be made of it. Sorted.
std::vector<uint16_t> DecidingSymbols(const Target& target, const loop::Kernel& kernel);

/// The versions of everything that makes code: objects of equal kernels, specs and identities are equal.
std::string TargetsIdentity();

}  // namespace ingot::compiler
