// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/lib/run/plan_image.h"
#include "client/lib/run/run_outcome.h"
#include "client/lib/threads/intra_op_pool.h"
#include "client/lib/threads/machine_share.h"

namespace ingot::client {

/// Memory that instances of one lane share: aligned, grown when a larger instance arrives.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  /// kExhausted. What points into the arena is stale after it grew (see address()).
  Status Reserve(int64_t bytes);
  uint8_t* address() const { return address_; }
  int64_t bytes() const { return bytes_; }

 private:
  uint8_t* address_ = nullptr;
  int64_t bytes_ = 0;
};

/// A plan with all sizes known: evaluated dims, arena offsets, tensors and argument stacks that are
/// the same for each call. Runs one call at a time; belongs to one lane.
class Instance {
 public:
  /// kInvalid: the plan is not for these sizes, or a number of it leaves 64 bits; kCorrupt: a value lies outside its
  /// storage; kExhausted; kIncompatible: an operator's arguments. The arena may grow.
  static Result<std::unique_ptr<Instance>> Make(std::shared_ptr<const PlanImage> image,
                                                std::span<const int64_t> symbols, Arena& arena,
                                                const std::vector<at::Tensor>& weights);
  ~Instance();

  std::span<const int64_t> symbols() const { return symbols_; }
  struct RunOptions {
    bool check_values = true;  ///< false: value guards are not compared. Sizes that depend on data always are.
    int threads = 0;           ///< it takes as many; 0: its part of the machine (MachineShare)
  };
  /// `marks` receives when each step begins, and when the last one has ended (MeasuredCall::marks).
  RunOutcome Run(const at::Tensor* const* inputs, std::vector<at::Tensor>& outputs, RunFailure& failure,
                 const RunOptions& options, std::vector<int64_t>* marks = nullptr);

  uint64_t last_used = 0;  ///< for its lane

 private:
  struct Shape {
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;  // elements
    at::ScalarType dtype = at::kFloat;
    uint32_t storage = 0;
    int64_t elements = 1;
    bool is_contiguous = true;
  };
  /// One kernel launch.
  struct Launch {
    IngotKernel kernel = nullptr;
    int64_t rows = 0;  // tasks: the range of a call frame
    int64_t grain = 0;
    int64_t scratch_bytes = 0;  // of each thread
    std::vector<int64_t> symbols;
    struct Pointer {
      uint32_t storage;
      int64_t offset;
    };
    std::vector<Pointer> pointers;
    std::vector<void*> buffers;
  };
  struct Call {
    const AtenCall* aten = nullptr;
    torch::jit::Stack stack;
    std::vector<AtenCall::Late> late;
  };
  enum class Done : uint8_t { kYes, kNo, kGuardFailed, kRaised };

  Instance(std::shared_ptr<const PlanImage> image, std::span<const int64_t> symbols);
  Status EvaluateDims();
  Status EvaluateShapes();
  Status CheckExtents() const;
  Status PlaceArena(Arena& arena);
  void BindFixed(const std::vector<at::Tensor>& weights);
  Status PrepareSteps();
  Status PrepareLaunch(const proto::PlanStep& step, Launch& launch);
  at::Tensor FixedTensor(uint32_t value);

  void BeginCall(const at::Tensor* const* inputs);
  void EndCall();
  template <typename Mark>
  Done RunSteps(RunFailure& failure, Mark mark);
  RunOutcome Finish(Done done, std::vector<at::Tensor>& outputs);
  Done RunStep(uint32_t at, RunFailure& failure);
  int32_t RunKernel(Launch& launch);
  void FillLate(Call& call);
  Done RunAten(uint32_t at, Call& call, RunFailure& failure);
  Done RunInPlace(uint32_t at, Call& call, RunFailure& failure);
  bool LieAsPlanned(const proto::PlanStep& step) const;
  Done TakeResults(uint32_t at, const Call& call, std::string& why);
  static Done CopyResult(const Shape& shape, at::Tensor tensor, at::Tensor to, std::string& why);
  Done TakeResult(uint32_t value, at::Tensor tensor, std::string& why);
  bool FitsStrides(uint32_t value, const at::Tensor& tensor) const;
  bool UsesPlannedMemory(const at::Tensor& tensor) const;
  void RunCopy(const proto::PlanStep& step);
  Done CheckGuard(const proto::PlanStep& step, std::string& why);
  const at::Tensor& TensorOf(uint32_t value);
  /// The value as an object that nobody else has.
  at::Tensor OutputOf(uint32_t value);
  at::Tensor MakeTensor(uint32_t value);
  void SetLate(uint32_t value, at::Tensor tensor);
  void Free(uint32_t storage);
  template <typename Visit>
  void EachWritten(Visit visit) const;
  void BumpVersions();
  void EndCollectives();
  RunOutcome RunOnThreads(const at::Tensor* const* inputs, std::vector<at::Tensor>& outputs, RunFailure& failure,
                          std::vector<int64_t>* marks);

  std::shared_ptr<const PlanImage> image_;
  std::vector<int64_t> symbols_;
  std::vector<int64_t> dims_;
  std::vector<Shape> shapes_;  // of each value
  std::vector<int64_t> storage_bytes_;
  std::vector<uint8_t*> bases_;  // address of element 0 of each storage
  std::vector<at::Tensor> owners_;  // Weight, Output, Returned: the tensor of a storage
  std::vector<c10::Storage> borrowed_;  // Arena, Constant: storages over planned memory
  std::vector<at::Tensor> tensors_;  // of each value, where one has been made
  std::vector<bool> is_fixed_;  // the value's tensor outlives a call
  std::vector<uint32_t> late_values_;  // values whose tensor was made for this call
  std::vector<uint32_t> input_storages_, output_storages_, returned_storages_;
  const at::Tensor* const* inputs_ = nullptr;  // of the call in progress
  std::vector<Launch> launches_;
  std::vector<Call> calls_;
  std::vector<uint32_t> index_of_step_;  // into launches_ or calls_
  torch::jit::Stack stack_;  // of the call in progress
  const uint8_t* arena_address_ = nullptr;
  int64_t arena_bytes_ = 0;
  uint8_t* scratch_ = nullptr;
  bool has_parallel_ = false;  // launches of more rows than a grain
  int scratch_slots_ = 1;
  bool wrote_ = false;
  // Of the call in progress:
  bool check_values_ = true;
  bool with_gradients_ = false;
  int threads_ = 1;
  IntraOpPool::Call* pool_ = nullptr;
  c10::impl::LocalDispatchKeySet callers_keys_{c10::impl::PODLocalDispatchKeySet()};
};

}  // namespace ingot::client
