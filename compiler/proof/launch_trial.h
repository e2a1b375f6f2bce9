// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"
#include "compiler/loop/exactness.h"
#include "compiler/loop/interpret.h"
#include "compiler/proof/array.h"
#include "compiler/proof/evaluation.h"
#include "compiler/proof/samples.h"

namespace ingot::compiler {

/// One launch at given sizes with inputs of its own, as the interpreter runs its kernel and as its nodes say.
class LaunchTrial {
 public:
  LaunchTrial(const Graph& graph, const Fused& fused, const Launch& launch, std::span<const int64_t> symbols,
              uint64_t seed, Sampled sampled);

  /// Interpreted instructions of the rows that it runs.
  uint64_t Work() const { return work_; }
  /// Makes memory and inputs. kUnsupported: there is too much of them, or they are of types that nobody computes with.
  Status Prepare();
  /// Runs the kernel. kInvalid: these inputs are none that the kernel takes.
  Status Run();
  /// Compares what it stored. kInternal: the first element that differs. kUnsupported, kExhausted, kInvalid: nothing
  /// was compared, with the reason.
  Status Compare();
  uint64_t compared() const { return compared_; }
  /// Whether another seed may rightly decide otherwise where this one differs.
  bool has_steps() const { return has_steps_; }

 private:
  struct Buffer {
    ValueId value = kNoValue;  ///< what is stored there, or read
    ValueId read = kNoValue;  ///< what it held before the launch; kNoValue: nothing that counts
    DType dtype = DType::kF32;
    int64_t elements = 0, bytes = 0;
    Memory before, after;
    std::vector<int64_t> strides;
  };
  struct Rows {
    int64_t begin, end;
    loop::Columns columns;
  };

  void Sample();
  uint64_t CostOfRow() const;
  bool JoinsColumns() const;
  Status Interpret(const std::vector<void*>& memory) const;
  Result<bool> IsWritten(const Buffer& buffer, int64_t at, int64_t bytes);
  Status Fill(Buffer& buffer, size_t number);
  /// The values that the launch reads and computes as well: their memory is what it computes.
  Status FillComputed();
  std::vector<int64_t> StridesOf(ValueId value) const;
  Evaluation& Reference(std::unique_ptr<Evaluation>& made, Narrow narrow, bool is_nudged);
  Status CompareBuffer(const Buffer& buffer, const loop::Exactness& exactness);
  /// The element whose place is `offset` elements into the memory of a value; -1: none lies there.
  int64_t ElementAt(const Buffer& buffer, int64_t offset);
  Status CompareElement(const Buffer& buffer, int64_t number, int64_t offset, const loop::Exactness& exactness);
  /// By how much elements of a buffer are others by `other` than by what they are expected to be.
  double TypicalMove(const Buffer& buffer, Evaluation& other);
  bool IsMember(ValueId value) const;
  /// What the nodes say; `of`: made by them. A launch of attention has one node, which has no expression.
  Result<double> ExpectedAt(Evaluation& of, const Buffer& buffer, int64_t number);
  Status ComputeProduct();

  const Graph& graph_;
  const loop::Kernel& kernel_;
  const Launch& launch_;
  const std::vector<int64_t> symbols_;
  std::vector<int64_t> kernel_symbols_;
  const uint64_t seed_;
  const Sampled sampled_;
  int64_t row_count_ = 0;
  std::vector<Rows> rows_;
  bool is_whole_ = false;  ///< all rows run
  bool is_narrow_ = false;  ///< some member computes f16 or bf16
  bool has_steps_ = false;
  uint64_t work_ = 0, compared_ = 0;
  std::vector<Buffer> buffers_;
  std::optional<Array> product_;
  std::map<ValueId, double> typical_;
  std::vector<Memory> nudged_, elsewhere_;
  std::unique_ptr<Evaluation> rounded_, wide_, nudged_rounded_;
};

}  // namespace ingot::compiler
