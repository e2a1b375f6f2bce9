// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/proof/array.h"
#include "compiler/proof/evaluation.h"

namespace ingot::compiler {

/// Calls of operators that nobody here computes: whatever they give, equal operands give it again, but for those that
/// have effects, of which each call is another one. One run makes the results up; others that ask for the same operator
/// with close operands get those.
class UnknownCalls {
 public:
  /// Calls by the order in which they were made up.
  using Numbers = std::set<size_t>;

  /// Of the run that makes results up. `sources`: the calls that the operands come from, and then the results.
  Result<std::vector<Array>> Make(const Graph& part, std::vector<Array> operands, Numbers& sources);
  /// Another run begins.
  void Rewind();
  /// Of a run that follows. kInternal: the operator was called, but with no such operands. kUnsupported: it was not, or
  /// its operands come from a call that this run has done without, whose results are not known here.
  Result<std::vector<Array>> Find(const Graph& part, const std::vector<Array>& operands);
  /// Operators that were called, each once.
  std::vector<std::string> names() const;
  /// One that this run has had no use for; empty: there is none.
  std::string Unused() const;

 private:
  struct Called {
    std::vector<Array> operands, results;
    size_t number = 0;
    Numbers sources = {};
  };
  struct Made {
    std::string name;
    size_t times = 1;  ///< with equal operands
    size_t used = 0;  ///< how often by this run
  };
  struct Operator {
    std::string name;
    std::vector<Called> calls;
  };
  std::map<Digest, Operator> operators_;
  std::vector<Made> made_;
};

/// Why nothing can be said of a plan in which there is no call of an operator whose results were made up.
Error DoneWithout(const std::string& op);

/// What a constant of a graph without symbols holds.
Result<Array> ConstantOf(const Graph& graph, const Input& input);

/// How nodes are run one at a time. Where Narrow is kWide, their results of f16 and bf16 are rounded either way by
/// chance.
class NodeRunner {
 public:
  enum class Unknown : uint8_t { kMadeUp, kFound };

  NodeRunner(UnknownCalls& calls, Unknown unknown, Narrow narrow, uint64_t work_max)
      : calls_(calls), unknown_(unknown), narrow_(narrow), work_max_(work_max) {}

  /// The results of a node of a graph without symbols, of these operands: products by their definition, what has an
  /// expression by that, composites by the parts that they come apart into alone.
  Result<std::vector<Array>> Run(const Graph& graph, NodeId id, const std::map<ValueId, Array>& operands);
  /// All values of a graph without symbols, of what its inputs are.
  Result<std::map<ValueId, Array>> RunAll(const Graph& graph, std::map<ValueId, Array> values);

  uint64_t work() const { return work_; }

 private:
  Result<std::vector<Array>> Evaluate(const Graph& part, const std::vector<Array>& operands, bool& has_expression);

  UnknownCalls& calls_;
  const Unknown unknown_;
  const Narrow narrow_;
  const uint64_t work_max_;
  uint64_t work_ = 0;
  UnknownCalls::Numbers sources_;  ///< the calls that the node that runs, or ran last, comes from
  int depth_ = 0;
  Random random_{1};
};

}  // namespace ingot::compiler
