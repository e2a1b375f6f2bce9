// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKey.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "client/native/trace/int_log.h"

namespace ingot::client {

/// Why a recording cannot become a graph. The name is counted and shown to the user.
struct Refusal {
  /// One of: nested, busy-key, exception, autocast, functorch, dispatch-mode, subclass,
  /// requires-grad, device, sparse, mkldnn, quantized, nested-tensor, conjugate, symbolic, dtype,
  /// generator, argument, metadata-change, hidden-alias, constant-size, communication; or a name given to Refuse().
  std::string name;
  std::string detail;  ///< what and where
};

/// A tensor that no step made and that is not an input: the caller must bind it. The Python side
/// looks for a path, else tries DeclareConstant(), which refuses what has no origin. Tensors made
/// from Python data during the recording (torch.tensor) are not among them: they become constants
/// by themselves.
struct Foreign {
  uint32_t value = 0;
  at::Tensor tensor;
  bool written = false;  ///< an in-place step changed its memory
};

/// An operator called that is not PyTorch's.
struct ForeignOperator {
  std::string name;         ///< "pkg::name.overload"
  bool is_before_decision;  ///< a value that is held against later calls' comes behind it, or from it
  std::set<std::string> modes;  ///< of autograd that it was called in: "grad", "no_grad", "inference", "inference grad"
};

/// Writes down what the dispatcher sees while the user's function runs on this thread.
///
/// A boxed fallback on a mode key above autograd notes operator, arguments, results, aliasing and
/// eager time, then redispatches. Tensors are identified by their TensorImpl, held so that no
/// address is reused while recording. Belongs to the thread that started it; other threads'
/// operators are not seen. A refusal ends the noting at once: the function still runs to its end, at
/// eager speed. Ends as a recording buffer (proto/graph.fbs) or a Refusal.
///
/// A deferred recorder computes no elements that nobody reads (deferred_run.h): what it notes is what a run
/// would do, the results are worth nothing.
class Recorder {
 public:
  /// The only functionality key above autograd, autocast and functorch that PyTorch leaves to others: below it
  /// composites are still whole. What runs with it excluded is not noted.
  static constexpr c10::DispatchKey kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

  using Where = std::function<std::string(std::string)>;

  /// Begins what the first recorder of the process would have to wait for.
  static void Prepare();
  /// `deferred_above`: deferred, but for operators that read at most so many elements. `where` says of a refusal's
  /// detail in which line of the program; called as the operator is, with or without the GIL.
  explicit Recorder(std::optional<int64_t> deferred_above = std::nullopt, Where where = nullptr);
  ~Recorder();

  /// Names a tensor leaf of the call, before Start(). Order = order of sources.
  void DeclareInput(const at::Tensor& tensor, std::string name);
  /// Names a live process group, before Start(): its name in this process, and an identity that
  /// means the same group in every process.
  void DeclareGroup(std::string name, std::string identity);
  void Start();
  void Stop();
  bool recording() const;
  /// `alias` is what `tensor.detach()` is, made behind the dispatcher's back: notes it as that.
  void NoteAlias(const at::Tensor& tensor, const at::Tensor& alias);

  /// Before Start(): told of each tensor that no step of the recording made, right before an operator writes it. Called
  /// as the operator is, with or without the GIL.
  void TellOfWrites(std::function<void(const at::Tensor&)> on_write);
  /// Before Start(): says what in the program would handle an exception that an operator raises now, or nothing. Called
  /// as the operator is, with or without the GIL.
  void AskForHandlers(std::function<std::string()> handler);
  /// After Stop(), deferred, when the results are dropped: computes what was put off if somebody still holds a
  /// tensor of it (a cache that the function fills). False when nobody does.
  bool CompleteIfKept();
  /// Forgets the step that was noted last where it read one element of a tensor; false where it did not.
  bool TakeBackRead();
  /// Before Start(): notes nothing, but tells of every operator whose result is no tensor, or of a size that values of
  /// its input decide. Called as the operator is, with or without the GIL.
  void Survey(std::function<void()> on_value);
  /// Runs something whose operators are noted, also after Stop(); what it throws is a refusal.
  void Noting(const std::function<void()>& run);
  /// The first refusal wins; the function still runs to its end.
  void Refuse(std::string name, std::string detail);
  const std::optional<Refusal>& refusal() const;

  /// After Stop(): a tensor without elements whose last dim is of this size, made by an operator that the recording has
  /// too, with the integer of it that is the size.
  std::pair<at::Tensor, std::optional<IntLog::Entry>> NoteSize(int64_t size);
  /// A tensor without dims that holds a number, as NoteSize().
  std::pair<at::Tensor, std::optional<IntLog::Entry>> NoteNumber(int64_t number);
  /// After Stop(): tensors without an origin that nothing was declared to be, in order of first use.
  std::vector<Foreign> Foreigns() const;
  /// After Stop(), before Foreigns(): the value id of an output leaf. One that no step touched (a
  /// parameter returned as it is) becomes a foreign tensor.
  uint32_t NoteOutput(const at::Tensor& tensor);
  /// After Stop(): order of calls = order of weight sources.
  void DeclareWeight(uint32_t value, std::string name);
  /// After Stop(): a foreign tensor that each call finds inside its arguments; an input behind those declared before.
  void DeclareFetched(uint32_t value, std::string name);
  /// Makes it a constant with the elements it had at first use. kExhausted above `bytes_max`;
  /// kUnsupported for a tensor that is not a 0-dim number (nobody knows what it depends on), and
  /// for one whose memory was written before its elements were copied.
  Status DeclareConstant(uint32_t value, size_t bytes_max);
  /// Value id of a tensor the recording knows (an output leaf), or none.
  std::optional<uint32_t> ValueOf(const at::Tensor& tensor) const;
  /// Bytes of the recording. kUnsupported carries the refusal.
  Result<Buffer> Finish(const std::string& name, const std::vector<at::Tensor>& outputs);

  /// Sorted by name.
  std::vector<ForeignOperator> ForeignOperators() const;
  /// Identities of the process groups that steps communicate in, by the slot they name.
  const std::vector<std::string>& Groups() const;
  size_t step_count() const;
  /// Whether a step gives memory as it was (aten::empty).
  bool MakesUninitialized() const;
  /// The integers operators were called with so far; lives as long as the recorder.
  const IntLog& int_log() const;
  /// What the run did with sizes, before Finish().
  void NoteSizes(SizeNotes notes);
  /// Whether this thread runs an operator that is being noted: Python code that runs now is its kernel.
  static bool IsInsideOperator();

  struct State;

 private:
  // Shared with the thread's dispatch fallback, which may outlive this object by one call.
  std::shared_ptr<State> state_;
};

}  // namespace ingot::client
