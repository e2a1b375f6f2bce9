// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "client/native/trace/recorder.h"
#include "client/onnx/model.h"
#include "client/onnx/node_call.h"
#include "client/onnx/sizes.h"
#include "client/onnx/value.h"

namespace ingot::onnx {

/// What the runs of one model share: tensors that are the same in every call, by name. A recording knows them by these
/// names as weights.
struct Constants {
  std::map<std::string, at::Tensor> tensors;
  std::unordered_map<const c10::TensorImpl*, std::string> names;
  /// Results of nodes that only constants lead to; an empty list: the node is better run.
  std::unordered_map<const Node*, std::vector<at::Tensor>> folded;

  /// The tensor that has this name from now on: the one given, or one given before that is the same to the bit.
  at::Tensor Add(std::string name, const at::Tensor& tensor);
};

/// The truths of the conditions that data decides, in the order in which a run meets them.
using Way = std::vector<bool>;

/// Runs the nodes of a model in order by ATen's operators while a recorder watches.
///
/// Integers that are known without data (shapes and what is computed with them) are not computed by tensors but
/// followed, and the recording says what they were made of. Nodes that only constants lead to are run once, unnoted,
/// unless that makes them larger. Belongs to one thread.
class Evaluator {
 public:
  Evaluator(const Model& model, client::Recorder& recorder, Constants& constants)
      : model_(model), recorder_(recorder), constants_(constants) {}

  /// Binds an input of the call, or a constant.
  void Bind(const std::string& name, Value value) { scopes_.back()[name] = std::move(value); }
  /// kUnsupported: an operator, attribute or element type that has no rule, or a program that depends on the data of
  /// its inputs; kInvalid: a rule of ONNX is broken, or an operator refuses its arguments; kCorrupt: nodes that are not
  /// in order. All name the node.
  Status Run();
  /// After Run(): a tensor that the recording knows or that comes from outside.
  Result<at::Tensor> Output(const std::string& name);

  Sizes& sizes() { return sizes_; }
  /// Before Run(): how the first conditions are decided; what follows is true.
  void SetWay(Way way) { way_ = std::move(way); }
  /// After Run(): how all were.
  const Way& taken() const { return taken_; }

 private:
  friend class NodeCall;

  void RunGraph(const Graph& graph);
  void RunNode(const Node& node);
  /// Refuses programs that run forever, or nearly.
  void Count();
  std::vector<Value> RunBody(const Graph& body, const std::vector<Value>& inputs);
  bool Fold(NodeCall& call);
  std::optional<std::vector<Value>> RunOnKnown(NodeCall& call);
  void Bind(const Node& node, const std::vector<Value>& results);
  Value& Find(const std::string& name);

  /// Elements of a value, computed if they are not yet.
  at::Tensor ElementsOf(Value& value);
  at::Tensor ElementsOf(const KnownInts& known);
  /// The integers of a value. Reading elements fixes what they were made of; `why` says what needs them.
  std::shared_ptr<const KnownInts> KnownOf(const Value& value, bool may_fix);
  void FixSizesOf(const Value& value);
  std::vector<at::Tensor> CallAll(std::string_view op, const Args& args);
  /// What the way says of a condition that data decides; the recording then serves calls alone in which it is that.
  bool Decide(const at::Tensor& condition);

  const Model& model_;
  client::Recorder& recorder_;
  Constants& constants_;
  Sizes sizes_;
  std::vector<std::unordered_map<std::string, Value>> scopes_ = {{}};  ///< those of bodies behind what is around them
  size_t run_ = 0;  ///< nodes
  Way way_, taken_;
  bool is_quiet_ = false;  ///< nothing is noted
};

}  // namespace ingot::onnx
