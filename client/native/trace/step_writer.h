// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/native/trace/int_log.h"
#include "client/native/trace/operator_facts.h"
#include "client/native/trace/recorder.h"
#include "client/native/trace/tensor_table.h"
#include "proto/graph_generated.h"

namespace ingot::client {

/// A call that has been read but has not run: its arguments as they were before it.
struct PendingStep {
  const OperatorFacts* facts = nullptr;
  const c10::FunctionSchema* schema = nullptr;
  flatbuffers::Offset<flatbuffers::String> name;
  c10::SmallVector<flatbuffers::Offset<proto::Arg>, 8> args;
  c10::SmallVector<std::pair<at::Tensor, uint32_t>, 2> written;
  bool is_random = false;
  size_t ints_before = 0;  ///< entries of the IntLog
  /// The call makes no step: it lifts a fresh constant.
  bool is_skipped = false;
};

/// Writes operator calls into a recording buffer as they happen, so that a step costs no
/// allocation of its own. A call it cannot express is refused; the writer is useless afterwards.
///
/// Belongs to the recording thread; runs with the mode key excluded.
class StepWriter {
 public:
  const OperatorFacts& Facts(const c10::OperatorHandle& op) { return Entry(op).facts; }
  /// Before the call: arguments in schema order.
  std::optional<Refusal> Begin(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args, PendingStep& step);
  /// After the call.
  std::optional<Refusal> End(const PendingStep& step, c10::ArrayRef<c10::IValue> results, uint64_t eager_ns);

  /// Forgets the last call where it read one element of a tensor; false where it did not.
  bool TakeBackRead();

  /// Makes a live process group known: the name it has in this process, and what it is everywhere.
  void DeclareGroup(std::string name, std::string identity) {
    groups_.insert_or_assign(std::move(name), std::move(identity));
  }
  /// Identities of the groups that steps communicate in; step arguments name them by position.
  const std::vector<std::string>& used_groups() const { return used_groups_; }

  TensorTable& tensors() { return tensors_; }
  const TensorTable& tensors() const { return tensors_; }
  flatbuffers::FlatBufferBuilder& builder() { return builder_; }
  const std::vector<flatbuffers::Offset<proto::Step>>& steps() const { return steps_; }
  const IntLog& int_log() const { return int_log_; }
  /// In no order.
  std::vector<ForeignOperator> ForeignOperators() const;

 private:
  using ArgOffset = flatbuffers::Offset<proto::Arg>;
  struct OperatorEntry {
    OperatorFacts facts;
    flatbuffers::Offset<flatbuffers::String> name;
  };
  OperatorEntry& Entry(const c10::OperatorHandle& op);

  ArgOffset WriteArgument(const c10::IValue& value, ArgRole role);
  ArgOffset WriteTensor(const at::Tensor& tensor);
  ArgOffset WriteNumber(const at::Tensor& number);
  ArgOffset WriteList(const c10::IValue& value);
  ArgOffset WriteInt(int64_t value, ArgRole role);
  ArgOffset WriteGroup(const c10::IValue& value);
  ArgOffset WriteResult(const c10::IValue& value);
  std::optional<int64_t> ArgumentValue(const at::Tensor& tensor);
  std::optional<int64_t> ResultValue(const at::Tensor& tensor);

  ArgOffset WriteInts(proto::ArgKind kind, c10::IntArrayRef ints);
  ArgOffset WriteFloats(proto::ArgKind kind, c10::ArrayRef<double> floats);
  ArgOffset WriteText(const std::string& text);
  ArgOffset WriteNone();
  void Refuse(std::string name, std::string detail);

  TensorTable tensors_;
  flatbuffers::FlatBufferBuilder builder_{64 << 10};
  std::vector<flatbuffers::Offset<proto::Step>> steps_;
  std::vector<size_t> decisions_;  // steps whose values are held against later calls'
  struct ForeignUse {
    size_t first = 0;  // step
    std::set<std::string> modes;
  };
  std::unordered_map<const OperatorFacts*, ForeignUse> foreign_;  // of those that are not PyTorch's
  std::unordered_map<const c10::FunctionSchema*, OperatorEntry> operators_;
  std::unordered_map<std::string, std::string> groups_;
  std::vector<std::string> used_groups_;
  const c10::FunctionSchema* last_schema_ = nullptr;  // the entry asked for last: a call asks twice
  OperatorEntry* last_entry_ = nullptr;
  const OperatorFacts* current_ = nullptr;  // operator being read or finished
  bool lifted_ = false;                     // the call's argument was a fresh constant
  void LogInts(c10::IntArrayRef ints);

  IntLog int_log_;
  uint16_t argument_ = 0;  // that is being written
  std::optional<Refusal> refusal_;
};

/// Why a tensor cannot be part of a recording, if it cannot.
std::optional<Refusal> UnsupportedTensor(const at::Tensor& tensor);

/// "f32[2, 3]", for messages.
std::string TextOf(const at::Tensor& tensor);

}  // namespace ingot::client
