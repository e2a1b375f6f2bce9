// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compiler/ir/text.h"
#include "compiler/ir/user_pattern.h"

namespace ingot::compiler {
namespace {

constexpr std::string_view kHeader = "ingot graph 1\n";

/// Writes one graph as tagged little-endian fields; every list and string has its size in front.
class Canonicalizer {
 public:
  explicit Canonicalizer(const Graph& graph) : graph_(graph), numbers_(graph.value_count(), kNoValue) {}

  std::string Run() {
    out_ = kHeader;
    U32(graph_.inputs.size());
    for (const Input& input : graph_.inputs) {
      Define(input.value);
      U8(static_cast<uint8_t>(input.kind));
      PutType(graph_.type(input.value));
      if (input.kind == InputKind::kConstant) Text(input.data);
    }
    U32(graph_.symbols.size());
    for (const SymbolSource& source : graph_.symbols) {
      U32(source.input);
      U32(source.dim);
    }
    U32(graph_.order().size());
    for (NodeId id : graph_.order()) PutNode(graph_.node(id));
    U32(graph_.outputs.size());
    for (ValueId output : graph_.outputs) Use(output);
    U32(graph_.writes.size());
    for (const Write& write : graph_.writes) {
      Use(write.target);
      Use(write.value);
    }
    // Behind everything, and only where it is set: other graphs keep their digests.
    if (graph_.eager_numerics) U8(1);
    if (const SequenceParallel& parallel = graph_.sequence_parallel; parallel.ranks != 0) {
      U8(3);
      U32(parallel.group);
      U32(parallel.ranks);
    }
    for (const auto& pattern : graph_.patterns) {
      U8(2);
      Text(CanonicalBytes(pattern->search));
      Text(CanonicalBytes(pattern->replace));
      U32(pattern->varied.size());
      for (const Graph& varied : pattern->varied) Text(CanonicalBytes(varied));
    }
    return std::move(out_);
  }

 private:
  template <size_t size>
  void Put(uint64_t value) {
    char bytes[size];
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
    out_.append(bytes, size);
  }
  void U8(uint8_t value) { out_ += static_cast<char>(value); }
  void U32(size_t value) { Put<4>(value); }
  void I64(int64_t value) { Put<8>(static_cast<uint64_t>(value)); }
  void F64(double value) {
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
    int64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    I64(bits);
  }
  void Text(std::string_view text) {
    I64(static_cast<int64_t>(text.size()));
    out_ += text;
  }

  void Define(ValueId id) {
    if (id < numbers_.size() && numbers_[id] == kNoValue) numbers_[id] = defined_++;
  }
  void Use(ValueId id) { U32(id < numbers_.size() ? numbers_[id] : kNoValue); }

  void PutDim(const Dim& dim) {
    U32(dim.terms().size());
    for (const Dim::Term& term : dim.terms()) {
      I64(term.coef);
      U32(term.factors.size());
      for (const guards::Factor& factor : term.factors) {
        if (factor.is_symbol()) {
          U32(factor.symbol());
          continue;
        }
        // No symbol has such a number.
        U32(1u << 16 | static_cast<uint32_t>(factor.atom().kind));
        PutDim(factor.atom().a);
        PutDim(factor.atom().b);
      }
    }
  }
  void PutDims(const Dims& dims) {
    U32(dims.size());
    for (const Dim& dim : dims) PutDim(dim);
  }
  void PutType(const Type& type) {
    U8(static_cast<uint8_t>(type.dtype));
    PutDims(type.sizes);
    PutDims(type.strides);
  }

  void PutNode(const Node& node) {
    Text(node.op);
    U8(node.effects);
    U32(static_cast<uint16_t>(node.inplace));
    U32(node.args.size());
    for (const Arg& arg : node.args) {
      U8(static_cast<uint8_t>(arg.index()));
      std::visit([this](const auto& a) { Put(a); }, arg);
    }
    U32(node.results.size());
    for (ValueId result : node.results) {
      Define(result);
      PutType(graph_.type(result));
    }
  }

  void Put(const None&) {}
  void Put(const Ref& a) { Use(a.id); }
  void Put(const Number& a) {
    U8(static_cast<uint8_t>(a.value.index()));
    std::visit([this](const auto& v) { Put(v); }, a.value);
  }
  void Put(bool a) { U8(a); }
  void Put(const Dim& a) { PutDim(a); }
  void Put(double a) { F64(a); }
  void Put(const Name& a) { Text(a); }
  void Put(const DTypeArg& a) { U8(static_cast<uint8_t>(a.dtype)); }
  void Put(const RefList& a) {
    U32(a.ids.size());
    for (ValueId id : a.ids) Use(id);
  }
  void Put(const Dims& a) { PutDims(a); }
  void Put(const std::vector<double>& a) {
    U32(a.size());
    for (double value : a) F64(value);
  }
  void Put(const std::vector<bool>& a) {
    U32(a.size());
    for (bool value : a) U8(value);
  }

  const Graph& graph_;
  std::string out_;
  std::vector<uint32_t> numbers_;  // of values, in order of definition
  uint32_t defined_ = 0;
};

}  // namespace

std::string CanonicalBytes(const Graph& graph) { return Canonicalizer(graph).Run(); }

}  // namespace ingot::compiler
