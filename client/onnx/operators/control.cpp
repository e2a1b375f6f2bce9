// SPDX-License-Identifier: Apache-2.0
// Branches and loops: a recording is one way through a program, in which loops are unrolled. Where data
// decides which branch runs, or how many of a few turns, each answer is a way; other loops are refused.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {
namespace control_part {

/// A value that is not the same wherever it is seen: what a loop carries, or one of two branches gives.
Value Carried(NodeCall& n, const Value& value) {
  Value carried = value;
  if (!value.is_constant) return carried;
  if (value.known == nullptr) carried.known = n.KnownOf(value);
  carried.is_constant = false;
  carried.made_of = std::make_shared<const Ints>();
  return carried;
}

Results If(NodeCall& n) {
  const Graph &yes = n.GraphOf("then_branch"), &no = n.GraphOf("else_branch");
  const bool is_same = n.IsConstant(0), holds = n.DecisionOn(n.ValueAt(0));
  Results results;
  for (const Value& value : n.RunBody(holds ? yes : no, {})) {
    results.push_back(is_same ? value : Carried(n, value));
  }
  return results;
}

/// What the turns of a loop gave, side by side along a new dim.
Value Stacked(NodeCall& n, const std::vector<Value>& turns, int64_t axis, bool backwards) {
  if (turns.empty()) Refuse("a loop that never turns gives lists of no known sizes");
  std::vector<at::Tensor> parts;
  for (const Value& value : turns) parts.push_back(n.ElementsOf(value));
  if (backwards) std::ranges::reverse(parts);
  return {n.Call("aten::stack", {parts, NodeCall::Axis(axis, parts.front().dim() + 1)}), nullptr, false, nullptr};
}

Results Loop(NodeCall& n) {
  const Graph& body = n.GraphOf("body");
  const size_t carried = n.input_count() < 2 ? 0 : n.input_count() - 2;
  if (body.outputs.size() < carried + 1) Reject("a body that gives less than it is given");
  const int64_t count = n.Has(0) ? n.IntAt(0).Fix() : std::numeric_limits<int64_t>::max();
  // Where data says when a loop of few turns ends, each number of turns is a way of its own.
  constexpr int64_t kTurnsMax = 7;
  const auto goes_on_by = [&](const Value& value) {
    return count <= kTurnsMax ? n.DecisionOn(value) : n.TruthOf(value);
  };
  bool goes_on = !n.Has(1) || count < 1 || goes_on_by(n.ValueAt(1));
  std::vector<Value> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(Carried(n, n.ValueAt(i + 2)));
  std::vector<std::vector<Value>> lists(body.outputs.size() - carried - 1);
  for (int64_t turn = 0; goes_on && turn < count; ++turn) {
    std::vector<Value> inputs = {
        {{}, std::make_shared<const KnownInts>(KnownInts{{turn}, {}}), false, nullptr},
        {{}, std::make_shared<const KnownInts>(KnownInts{{1}, {}, at::kBool}), false, nullptr}};
    inputs.insert(inputs.end(), state.begin(), state.end());
    std::vector<Value> outputs = n.RunBody(body, inputs);
    goes_on = turn + 1 < count && goes_on_by(outputs.front());
    for (size_t i = 0; i < carried; ++i) state[i] = Carried(n, outputs[i + 1]);
    for (size_t i = 0; i < lists.size(); ++i) lists[i].push_back(outputs[carried + 1 + i]);
  }
  Results results;
  for (Value& value : state) results.push_back(std::move(value));
  for (size_t i = 0; i < lists.size(); ++i) {
    results.push_back(n.Wants(carried + i) ? Stacked(n, lists[i], 0, false) : Value());
  }
  return results;
}

std::vector<int64_t> ListOf(NodeCall& n, std::string_view name, size_t count) {
  std::vector<int64_t> given = n.IntsOf(name).value_or(std::vector<int64_t>(count, 0));
  if (given.size() != count) Reject(fmt::format("'{}' has {} numbers for {} lists", name, given.size(), count));
  return given;
}

Results Scan(NodeCall& n) {
  const Graph& body = n.GraphOf("body");
  const int64_t asked = n.IntOf("num_scan_inputs");
  if (asked < 1 || static_cast<uint64_t>(asked) > n.input_count()) Reject(fmt::format("{} lists to scan", asked));
  const auto scanned = static_cast<size_t>(asked), carried = n.input_count() - scanned;
  if (body.outputs.size() < carried) Reject("a body that gives less than it is given");
  const size_t given = body.outputs.size() - carried;
  const std::vector<int64_t> axes = ListOf(n, "scan_input_axes", scanned),
                             directions = ListOf(n, "scan_input_directions", scanned),
                             output_axes = ListOf(n, "scan_output_axes", given),
                             output_directions = ListOf(n, "scan_output_directions", given);
  std::vector<at::Tensor> lists;
  int64_t count = 0;
  for (size_t i = 0; i < scanned; ++i) {
    lists.push_back(n.In(carried + i));
    const int64_t length = n.SizeOf(lists[i], axes[i]).Fix();
    if (i > 0 && length != count) Reject(fmt::format("lists of {} and {}", count, length));
    count = length;
  }
  std::vector<Value> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(Carried(n, n.ValueAt(i)));
  std::vector<std::vector<Value>> made(given);
  for (int64_t turn = 0; turn < count; ++turn) {
    std::vector<Value> inputs = state;
    for (size_t i = 0; i < scanned; ++i) {
      const int64_t axis = NodeCall::Axis(axes[i], lists[i].dim());
      const at::Tensor part =
          n.Call("aten::select.int", {lists[i], axis, directions[i] == 0 ? turn : count - 1 - turn});
      inputs.push_back({part, nullptr, false, nullptr});
    }
    std::vector<Value> outputs = n.RunBody(body, inputs);
    for (size_t i = 0; i < carried; ++i) state[i] = Carried(n, outputs[i]);
    for (size_t i = 0; i < given; ++i) made[i].push_back(outputs[carried + i]);
  }
  Results results;
  for (Value& value : state) results.push_back(std::move(value));
  for (size_t i = 0; i < given; ++i) {
    results.push_back(n.Wants(carried + i) ? Stacked(n, made[i], output_axes[i], output_directions[i] != 0) : Value());
  }
  return results;
}

constexpr Operator kTable[] = {
    {"If", 1, If, nullptr, true},
    {"Loop", 1, Loop, nullptr, true},
    {"Scan", 9, Scan, nullptr, true},
};

}  // namespace control_part
}  // namespace

std::span<const Operator> ControlOperators() { return control_part::kTable; }

}  // namespace ingot::onnx
