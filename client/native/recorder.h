// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace ingot::client {

/// Why a recording cannot become a graph. The name is counted and shown to the user.
struct Refusal {
  std::string name;    ///< "escape-numpy", "subclass", "autocast", "requires-grad", "device", ...
  std::string detail;  ///< what and where
};

/// A tensor that existed before the first step and that the caller must bind: no step made it and
/// Declare() did not name it. The Python side looks for a path, else gives Refuse() or
/// DeclareConstant().
struct Foreign {
  uint32_t value = 0;
  at::Tensor tensor;
  bool written = false;   ///< an in-place step changed it: must not become a constant
};

/// Writes down what the dispatcher sees while the user's function runs on this thread.
///
/// A boxed fallback on a mode key above autograd notes operator, arguments, results, aliasing and
/// eager time, then redispatches. Tensors are identified by their TensorImpl, held so that no
/// address is reused while recording. Belongs to the thread that started it; other threads'
/// operators are not seen. Ends as a recording buffer (proto/graph.fbs) or a Refusal.
class Recorder {
 public:
  Recorder();
  ~Recorder();

  /// Names a tensor leaf of the call, before Start(). Order = order of sources.
  void DeclareInput(const at::Tensor& tensor, std::string name);
  void Start();
  void Stop();
  bool recording() const;
  /// The first refusal wins; the function still runs to its end.
  void Refuse(std::string name, std::string detail);
  const std::optional<Refusal>& refusal() const;

  /// After Stop(): tensors without an origin, in order of first use.
  std::vector<Foreign> Foreigns() const;
  /// After Stop(): order of calls = order of weight sources.
  void DeclareWeight(uint32_t value, std::string name);
  /// Copies the elements (at most `bytes_max`); kExhausted above.
  Status DeclareConstant(uint32_t value, size_t bytes_max);
  /// Value id of a tensor the recording knows (an output leaf), or none.
  std::optional<uint32_t> ValueOf(const at::Tensor& tensor) const;
  /// Bytes of the recording. kUnsupported carries the refusal.
  Result<Buffer> Finish(const std::string& name, const std::vector<at::Tensor>& outputs);

  size_t step_count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::client
