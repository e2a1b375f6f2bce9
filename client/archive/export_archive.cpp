// SPDX-License-Identifier: Apache-2.0
#include "client/archive/export_archive.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "client/archive/archive_state.h"
#include "client/archive/followed_sizes.h"
#include "client/archive/result_tree.h"
#include "client/archive/runner.h"
#include "client/archive/sym_expr.h"
#include "client/lib/run/tensor_memory.h"
#include "client/native/trace/recorder.h"
#include "client/native/trace/tensor_table.h"

namespace ingot::client {
namespace {

using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using guards::Dim;
using Relation = proto::SizeRelation;

constexpr size_t kConstantBytesMax = 16 << 20;

/// A size as the symbols make it.
Int IntOf(const Dim& dim, const Ints& symbols) {
  const auto of = [&symbols](const guards::Factor& factor) {
    if (factor.is_symbol()) return symbols.at(factor.symbol());
    const guards::Atom& atom = factor.atom();
    const Int a = IntOf(atom.a, symbols), b = IntOf(atom.b, symbols);
    if (atom.kind == guards::Atom::Kind::kFloorDiv) return FloorDiv(a, b);
    return atom.kind == guards::Atom::Kind::kMin ? Minimum(a, b) : Maximum(a, b);
  };
  Int sum = 0;
  for (const Dim::Term& term : dim.terms()) {
    Int product = term.coef;
    for (const guards::Factor& factor : term.factors) product = product * of(factor);
    sum = sum + product;
  }
  return sum;
}

std::vector<int64_t> Evaluate(const std::vector<Dim>& dims, std::span<const int64_t> values) {
  std::vector<int64_t> numbers;
  for (const Dim& dim : dims) numbers.push_back(dim.Eval(values));
  return numbers;
}

/// Values do not matter to a recording, but indices must be in range wherever they are used. `whole`: what elements of
/// integers are made up as.
at::Tensor MakeUp(const ArchiveShape& shape, std::span<const int64_t> values, int64_t whole) {
  at::Tensor made = at::empty_strided(Evaluate(shape.sizes, values), Evaluate(shape.strides, values), shape.dtype);
  if (shape.dtype == at::kBool) return made.fill_(true);
  if (at::isFloatingType(shape.dtype) || at::isComplexType(shape.dtype)) return made.fill_(0.5);
  return made.fill_(whole);
}

/// Another tensor of the same strides and, in gaps too, the same bytes. A clone lies as it likes.
at::Tensor CopyOfMemory(const at::Tensor& tensor) {
  const at::Tensor copy = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
  const Bytes memory = MemoryOf(tensor);
  if (!memory.empty()) std::memcpy(AddressOf(copy), memory.data(), memory.size());
  return copy;
}

}  // namespace

/// After the nodes: writes that the signature promises, and the leaves of the result.
Status ExportArchive::State::Finish(Scope& scope, Recorder& recorder, bool follows, std::vector<at::Tensor>& leaves) {
  // What was written somewhere is what lies there, to whoever is given it.
  std::map<std::string, at::Tensor> written;
  for (const ArchiveResult& output : results) {
    if (!output.target) continue;
    TRY_ASSIGN(const c10::IValue value, ReadArgument(output.argument, scope));
    TRY_ASSIGN(const c10::IValue target, ReadArgument({{"as_tensor", {{"name", *output.target}}}}, scope));
    if (!value.isTensor()) return Error(Code::kCorrupt, fmt::format("'{}' is written with no tensor", *output.target));
    target.toTensor().copy_(value.toTensor());
    written[output.argument.at("as_tensor").at("name").get<std::string>()] = target.toTensor();
  }
  recorder.Stop();
  std::vector<OrderedJson> tree;
  for (const ArchiveResult& output : results) {
    if (output.target) continue;
    TRY_ASSIGN(const c10::IValue value, ReadArgument(output.argument, scope));
    if (value.isTensor()) {
      const auto place = written.find(output.argument.begin().value().value("name", ""));
      tree.push_back(Leaf(place == written.end() ? value.toTensor() : place->second, scope, leaves));
      recorder.NoteOutput(leaves.at(tree.back().at("i").get<size_t>()));
    } else if (value.isNone()) {
      tree.push_back({{"t", "const"}, {"v", nullptr}});
    } else if (output.argument.begin().key().starts_with("as_sym") && follows) {
      return Error(Code::kUnsupported, "a result is a size, not a tensor; give the symbols sizes with --static");
    } else if (value.isInt() || value.isBool()) {
      tree.push_back({{"t", "const"}, {"v", value.isInt() ? OrderedJson(value.toInt()) : OrderedJson(value.toBool())}});
    } else {
      return Error(Code::kUnsupported, fmt::format("a result that is a {}", value.tagKind()));
    }
  }
  TRY_ASSIGN(const OrderedJson built, ResultTree(result_spec, tree));
  outputs = built.dump();
  return {};
}

/// The node of a result structure for a tensor, which is one object wherever it is given, and an argument's own.
OrderedJson ExportArchive::State::Leaf(const at::Tensor& tensor, const Scope& scope,
                                       std::vector<at::Tensor>& leaves) const {
  const auto is_it = [&tensor](const at::Tensor& other) { return other.is_same(tensor); };
  const auto known = std::ranges::find_if(leaves, is_it);
  OrderedJson node{{"t", "leaf"}, {"i", known - leaves.begin()}};
  if (known == leaves.end()) leaves.push_back(tensor);
  const auto is_input = [&](const ArchiveInput& input) { return is_it(scope.at(input.name).toTensor()); };
  const auto input = std::ranges::find_if(inputs, is_input);
  if (input != inputs.end()) node["input"] = input - inputs.begin();
  return node;
}

/// Buffers may be windows of one memory, where what is written to one is seen in others. In a file each is a weight of
/// its own.
Status ExportArchive::State::CheckMemory(const std::vector<std::string>& written,
                                         const std::vector<std::string>& used) const {
  for (size_t i = 0; i < written.size(); ++i) {
    std::vector<std::string> others(written.begin() + static_cast<int64_t>(i) + 1, written.end());
    others.insert(others.end(), used.begin(), used.end());
    const auto other = std::ranges::find_if(
        others, [&](const std::string& name) { return Overlap(tensors.at(written[i]), tensors.at(name)); });
    if (other == others.end()) continue;
    return Error(Code::kUnsupported,
                 fmt::format("the program writes buffer '{}', in whose memory '{}' lies", written[i], *other));
  }
  return {};
}

/// What the archive promises of sizes: numbers, those that are one, those that follow from others, ranges, and what
/// torch.export found on its way.
void ExportArchive::State::NoteRanges(const Recorder& recorder, const Scope& scope, std::span<const int64_t> values,
                                      std::span<const ArchiveSymbol> ranges, Sizes& sizes) const {
  sizes.set_where("the archive's inputs");
  Ints by(values.begin(), values.end());
  std::vector<bool> is_known(by.size(), false);
  std::vector<std::pair<Int, Dim>> others;
  for (const ArchiveInput& input : inputs) {
    const at::Tensor& tensor = scope.at(input.name).toTensor();
    const auto value = recorder.ValueOf(tensor);
    for (size_t d = 0; value && d < input.sizes.size(); ++d) {
      const auto dim = static_cast<int64_t>(d);
      const Int size = sizes.OfValue(*value, dim, tensor.size(dim));
      const auto symbol = input.sizes[d].lone_symbol();
      if (symbol && !is_known[*symbol]) {
        by[*symbol] = size;
        is_known[*symbol] = true;
      } else {
        others.emplace_back(size, input.sizes[d]);
      }
    }
  }
  const auto note = [&sizes](Relation relation, const Int& a, const Int& b) { sizes.Note(relation, a, b); };
  for (const auto& [size, dim] : others) note(Relation::Equal, size, IntOf(dim, by));
  for (size_t i = 0; i < ranges.size(); ++i) {
    const ArchiveSymbol& range = ranges[i];
    if (!is_known[i]) continue;
    if (range.min == range.max) by[i].Fix();
    if (range.min > 0) note(Relation::LessOrEqual, Int(range.min), by[i]);
    if (range.max) note(Relation::LessOrEqual, by[i], Int(*range.max));
  }
  for (const guards::Guard& guard : conditions.guards()) {
    using Kind = guards::Guard::Kind;
    const Int value = IntOf(guard.value, by);
    switch (guard.kind) {
      case Kind::kEqual: note(Relation::Equal, value, Int(0)); break;
      case Kind::kNotEqual: note(Relation::NotEqual, value, Int(0)); break;
      case Kind::kAtLeast: note(Relation::LessOrEqual, Int(0), value); break;
      case Kind::kModulo: note(Relation::Equal, Mod(value, guard.modulus), Int(guard.remainder)); break;
      case Kind::kNotModulo: note(Relation::NotEqual, Mod(value, guard.modulus), Int(guard.remainder)); break;
      default: throw SizeError("a condition that is none of sizes");
    }
  }
}

Result<Buffer> ExportArchive::State::Record(std::span<const int64_t> values, std::span<const ArchiveSymbol> ranges,
                                            int64_t whole) {
  const at::AutoGradMode no_grad(false);
  Recorder recorder;
  Scope scope;
  // A program may count in its buffers; that must not change the next run or the file.
  std::map<std::string, at::Tensor> bound;
  for (const ArchiveWeight& weight : weights) {
    const at::Tensor& stored = tensors.at(weight.target);
    scope[weight.value] =
        bound.try_emplace(weight.target, weight.is_buffer ? CopyOfMemory(stored) : stored).first->second;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor made = MakeUp(shapes[i], values, whole);
    scope[inputs[i].name] = made;
    recorder.DeclareInput(made, inputs[i].name);
  }
  std::vector<at::Tensor> leaves;
  const bool follows = !ranges.empty();
  Sizes sizes;
  Following following{recorder, sizes};
  if (follows) NoteRanges(recorder, scope, values, ranges, sizes);
  recorder.Start();
  TRY(RunGraph(graph, follows ? &following : nullptr, scope));
  TRY(Finish(scope, recorder, follows, leaves));
  std::vector<std::string> written, used;
  for (const Foreign& foreign : recorder.Foreigns()) {
    const auto weight =
        std::find_if(bound.begin(), bound.end(), [&](const auto& b) { return b.second.is_same(foreign.tensor); });
    if (weight == bound.end()) {
      TRY(recorder.DeclareConstant(foreign.value, kConstantBytesMax));
      continue;
    }
    const auto is_it = [&](const ArchiveWeight& b) { return b.target == weight->first && b.is_buffer; };
    if (foreign.written && std::none_of(weights.begin(), weights.end(), is_it)) {
      return Error(Code::kUnsupported, fmt::format("the program writes '{}', which is no buffer", weight->first));
    }
    recorder.DeclareWeight(foreign.value, weight->first);
    (foreign.written ? written : used).push_back(weight->first);
  }
  TRY(CheckMemory(written, used));
  if (follows) recorder.NoteSizes(sizes.Notes());
  return recorder.Finish(name, leaves);
}

ExportArchive::ExportArchive(std::unique_ptr<State> state) : state_(std::move(state)) {}
ExportArchive::ExportArchive(ExportArchive&&) noexcept = default;
ExportArchive::~ExportArchive() = default;

Result<ExportArchive> ExportArchive::Open(const std::string& path) {
  TRY_ASSIGN(RecordReader reader, RecordReader::Open(path));
  auto state = std::make_unique<State>(std::move(reader));
  state->name = std::filesystem::path(path).stem().string();
  try {
    if (Status read = state->Read(); !read) return std::move(read).error().Wrap(path);
  } catch (const std::exception& e) {
    return Error(Code::kCorrupt, fmt::format("{}: {}", path, e.what()));
  }
  return ExportArchive(std::move(state));
}

const std::string& ExportArchive::name() const { return state_->name; }
const std::vector<ArchiveSymbol>& ExportArchive::symbols() const { return state_->symbols; }
const std::vector<ArchiveInput>& ExportArchive::inputs() const { return state_->inputs; }
const guards::GuardSet& ExportArchive::conditions() const { return state_->conditions; }
const std::string& ExportArchive::arguments() const { return state_->arguments; }
const std::string& ExportArchive::outputs() const { return state_->outputs; }

bool ExportArchive::HasPolynomialSizes() const {
  std::vector<std::string> names;
  for (const ArchiveSymbol& symbol : state_->symbols) names.push_back(symbol.name);
  const std::function<bool(const json&)> is_plain = [&](const json& part) {
    if (!part.is_structured()) return true;
    if (part.is_object() && (part.contains("as_sym_float") || part.contains("as_sym_bool"))) return false;
    if (part.is_object() && part.contains("expr_str")) {
      const auto dim = part["expr_str"].is_string() ? ParseSymExpr(part["expr_str"].get<std::string>(), names)
                                                    : Result<Dim>(Error(Code::kCorrupt, ""));
      return dim && !dim->HasAtoms();
    }
    if (!part.is_object()) return std::ranges::all_of(part, is_plain);
    // How memory lies is written with a minimum for sizes of 0.
    for (const auto& [key, value] : part.items()) {
      if (key != "strides" && key != "storage_offset" && !is_plain(value)) return false;
    }
    return true;
  };
  return is_plain(state_->graph);
}

Result<Buffer> ExportArchive::Record(std::span<const int64_t> values, std::span<const ArchiveSymbol> ranges) {
  const size_t count = state_->symbols.size();
  if (values.size() != count || (!ranges.empty() && ranges.size() != count)) {
    return Error(Code::kInvalid,
                 fmt::format("{} sizes and {} ranges for {} symbols", values.size(), ranges.size(), count));
  }
  try {
    Result<Buffer> recording = state_->Record(values, ranges, 0);
    // Zeros are positions everywhere, but nothing can be divided by them.
    if (recording || recording.error().code() != Code::kInvalid) return recording;
    Result<Buffer> again = state_->Record(values, ranges, 1);
    return again ? std::move(again) : std::move(recording);
  } catch (const json::exception& e) {
    return Error(Code::kCorrupt, e.what());
  } catch (const c10::Error& e) {
    return Error(Code::kInvalid, e.what_without_backtrace());
  } catch (const std::exception& e) {
    return Error(Code::kInvalid, e.what());
  }
}

Result<ExportedWeight> ExportArchive::Weight(const std::string& name) {
  const auto found = state_->tensors.find(name);
  if (found == state_->tensors.end()) return Error(Code::kNotFound, fmt::format("weight '{}'", name));
  const at::Tensor& tensor = found->second;
  const auto dtype = DTypeOf(tensor.scalar_type());
  if (!dtype) return Error(Code::kUnsupported, fmt::format("weight '{}' has an unknown element type", name));
  if (DigestOf(MemoryOf(tensor)) != state_->untouched.at(name)) {
    return Error(Code::kInternal, fmt::format("weight '{}' was changed by a run of the program", name));
  }
  auto [elements, added] = state_->elements.try_emplace(name);
  if (added) elements->second = CopyElements(tensor);
  return ExportedWeight{name, static_cast<guards::DType>(*dtype), tensor.sizes().vec(), tensor.strides().vec(),
                        elements->second};
}

}  // namespace ingot::client
