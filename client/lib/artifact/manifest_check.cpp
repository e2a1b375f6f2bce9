// SPDX-License-Identifier: Apache-2.0
#include "client/lib/artifact/manifest_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "guards/guard_set.h"
#include "guards/manifest_guards.h"
#include "proto/group_slot.h"
#include "proto/operator_space.h"

namespace ingot::client {
namespace {

/// Terms and factors of one dim, and of all that have atoms, those of the dims that atoms are made of included.
constexpr uint64_t kDimWeightMax = 1 << 14;
constexpr uint64_t kWeightsMax = 1 << 20;

template <typename V>
size_t SizeOf(const V* vector) {
  return vector == nullptr ? 0 : vector->size();
}

class Checker {
 public:
  Checker(const proto::Manifest& manifest, uint64_t constants_bytes)
      : m_(manifest),
        constants_bytes_(constants_bytes),
        dims_(SizeOf(m_.dims())),
        values_(SizeOf(m_.values())),
        steps_(SizeOf(m_.steps())) {}

  Status Check() {
    TRY(In(m_.groups(), proto::kGroupsMax + 1, "group"));
    TRY(CheckConditions());
    TRY(CheckDims());
    TRY(CheckStorages());
    TRY(CheckRecipe());
    TRY(CheckValues());
    TRY(CheckBindings());
    for (size_t i = 0; i < steps_; ++i) {
      if (Status status = CheckStep(*m_.steps()->Get(i)); !status) {
        return std::move(status).error().Wrap(fmt::format("step {}", i));
      }
    }
    TRY(All(m_.outputs(), values_, "output"));
    if (SizeOf(m_.input_alias()) != SizeOf(m_.inputs())) return Corrupt("input aliases", SizeOf(m_.input_alias()));
    return All(m_.input_alias(), SizeOf(m_.inputs()), "input alias");
  }

 private:
  static Error Corrupt(std::string_view field, uint64_t found) {
    return Error(Code::kCorrupt, fmt::format("manifest: {} {} does not exist", field, found));
  }
  static Status In(uint64_t index, uint64_t count, std::string_view field) {
    if (index >= count) return Corrupt(field, index);
    return {};
  }
  template <typename V>
  static Status All(const V* vector, uint64_t count, std::string_view field) {
    for (size_t i = 0; i < SizeOf(vector); ++i) TRY(In(vector->Get(static_cast<uint32_t>(i)), count, field));
    return {};
  }

  Status CheckDims() {
    for (size_t i = 0; i < dims_; ++i) {
      const proto::Dim& dim = *m_.dims()->Get(i);
      size_t symbols = 0;
      for (size_t k = 0; k < SizeOf(dim.degrees()); ++k) symbols += dim.degrees()->Get(k);
      if (SizeOf(dim.degrees()) != SizeOf(dim.coefs()) || symbols != SizeOf(dim.symbols())) {
        return Corrupt("term of dim", i);
      }
      TRY(CheckAtoms(dim, i));
    }
    for (size_t i = 0; i < SizeOf(m_.symbols()); ++i) {
      const proto::SymbolSource& source = *m_.symbols()->Get(i);
      TRY(In(source.input(), SizeOf(m_.inputs()), "symbol input"));
    }
    return {};
  }

  /// Atoms are made of dims before theirs, and no dim unfolds into more than one may, nor all into more than all may.
  Status CheckAtoms(const proto::Dim& dim, size_t place) {
    uint32_t depth = 0;
    uint64_t weight = SizeOf(dim.coefs());
    for (size_t k = 0; k < SizeOf(dim.symbols()); ++k) {
      const uint16_t symbol = dim.symbols()->Get(static_cast<uint32_t>(k));
      ++weight;
      if (symbol < guards::kFirstAtom) continue;
      const auto number = static_cast<uint32_t>(symbol - guards::kFirstAtom);
      if (number >= SizeOf(dim.atoms())) return Corrupt("atom of dim", place);
      const proto::Atom& atom = *dim.atoms()->Get(number);
      if (atom.kind() > static_cast<uint8_t>(guards::Atom::Kind::kMax) || atom.a() >= place || atom.b() >= place)
        return Corrupt("atom of dim", place);
      depth = std::max({depth, dim_depths_[atom.a()] + 1, dim_depths_[atom.b()] + 1});
      const uint64_t within = uint64_t{1} + dim_weights_[atom.a()] + dim_weights_[atom.b()];
      if (within > guards::Atom::kWeightMax) return Corrupt("size of dim", place);
      weight += within - 1;
    }
    if (depth > guards::Atom::kDepthMax || weight > kDimWeightMax) return Corrupt("size of dim", place);
    dim_depths_.push_back(depth);
    dim_weights_.push_back(static_cast<uint32_t>(weight));
    if (depth == 0) return {};
    weights_ += weight;
    if (weights_ > kWeightsMax) return Corrupt("size of dims up to", place);
    const auto unfolded = guards::ReadDim(dim.coefs(), dim.degrees(), dim.symbols(), dim.atoms(),
                                          [&](uint32_t before) { return guards::DimAt(m_, before); });
    if (!unfolded) return Corrupt("size of dim", place);
    return {};
  }

  Status CheckConditions() {
    if (m_.conditions() == nullptr) return {};
    const auto conditions = guards::GuardSet::Parse(m_.conditions()->string_view());
    if (!conditions || !conditions->IsOverSymbols() || conditions->SymbolCount() > SizeOf(m_.symbols())) {
      return Error(Code::kCorrupt, fmt::format("manifest: no conditions over {} symbols: '{}'", SizeOf(m_.symbols()),
                                               m_.conditions()->string_view()));
    }
    return {};
  }

  Status CheckStorages() {
    for (size_t i = 0; i < SizeOf(m_.storages()); ++i) {
      const proto::Storage& storage = *m_.storages()->Get(i);
      TRY(In(storage.bytes_dim(), dims_, "storage dim"));
      switch (storage.kind()) {
        case proto::StorageKind::Input: TRY(In(storage.index(), SizeOf(m_.inputs()), "input")); break;
        case proto::StorageKind::Weight: TRY(In(storage.index(), SizeOf(m_.weights()), "weight")); break;
        case proto::StorageKind::Constant: TRY(In(storage.index(), SizeOf(m_.constants()), "constant")); break;
        case proto::StorageKind::Arena:
        case proto::StorageKind::Output:
        case proto::StorageKind::Returned: break;
        default: return Corrupt("storage kind", static_cast<uint64_t>(storage.kind()));
      }
      TRY(In(storage.first_step(), steps_ + 1, "first step"));
      TRY(In(storage.last_step(), steps_ + 1, "last step"));
      if (storage.last_step() < storage.first_step()) return Corrupt("lifetime of storage", i);
    }
    return {};
  }

  // Whether buffers meet on the same memory is known once their sizes are.
  Status CheckRecipe() {
    if (m_.recipe() == nullptr) return {};
    size_t buffers = 0;
    for (size_t i = 0; i < SizeOf(m_.storages()); ++i) {
      buffers += m_.storages()->Get(i)->kind() == proto::StorageKind::Arena;
    }
    for (size_t i = 0; i < SizeOf(m_.recipe()->arenas()); ++i) {
      const proto::ArenaLayout& layout = *m_.recipe()->arenas()->Get(i);
      if (SizeOf(layout.values()) != SizeOf(m_.symbols())) return Corrupt("symbols of layout", i);
      if (SizeOf(layout.offsets()) != buffers) return Corrupt("buffers of layout", i);
    }
    return {};
  }

  Status CheckValues() {
    for (size_t i = 0; i < values_; ++i) {
      const proto::Value& value = *m_.values()->Get(i);
      TRY(In(static_cast<uint64_t>(value.dtype()), guards::kDTypeCount, "dtype"));
      TRY(All(value.sizes(), dims_, "size"));
      TRY(All(value.strides(), dims_, "stride"));
      if (SizeOf(value.sizes()) != SizeOf(value.strides()) || SizeOf(value.sizes()) > 64)
        return Corrupt("rank of value", i);
      TRY(In(value.offset(), dims_, "offset"));
      TRY(In(value.storage(), SizeOf(m_.storages()), "storage"));
    }
    return {};
  }

  // Inputs, weights and constants: element 0 of their value is element 0 of what is bound.
  Status CheckBound(uint32_t value, proto::StorageKind kind, size_t index) {
    TRY(In(value, values_, "bound value"));
    const proto::Storage& storage = *m_.storages()->Get(m_.values()->Get(value)->storage());
    if (storage.kind() != kind || storage.index() != index) return Corrupt("binding of value", value);
    return {};
  }

  Status CheckBindings() {
    for (size_t i = 0; i < SizeOf(m_.inputs()); ++i) {
      TRY(CheckBound(m_.inputs()->Get(i)->value(), proto::StorageKind::Input, i));
    }
    for (size_t i = 0; i < SizeOf(m_.symbols()); ++i) {
      const proto::SymbolSource& source = *m_.symbols()->Get(i);
      const proto::Value& value = *m_.values()->Get(m_.inputs()->Get(source.input())->value());
      TRY(In(source.dim(), SizeOf(value.sizes()), "symbol dim"));
    }
    for (size_t i = 0; i < SizeOf(m_.weights()); ++i) {
      TRY(CheckBound(m_.weights()->Get(i)->value(), proto::StorageKind::Weight, i));
    }
    for (size_t i = 0; i < SizeOf(m_.constants()); ++i) {
      const proto::ConstantSpec& spec = *m_.constants()->Get(i);
      TRY(CheckBound(spec.value(), proto::StorageKind::Constant, i));
      if (spec.offset() > constants_bytes_ || spec.bytes() > constants_bytes_ - spec.offset() ||
          spec.offset() % 64 != 0) {
        return Corrupt("range of constant", i);
      }
    }
    for (size_t i = 0; i < SizeOf(m_.kernels()); ++i) {
      const proto::Kernel& kernel = *m_.kernels()->Get(i);
      TRY(In(kernel.rows(), dims_, "rows"));
      TRY(In(kernel.scratch_bytes(), dims_, "scratch"));
      TRY(In(kernel.row_elements(), dims_, "row elements"));
      TRY(CheckCost(kernel.cost()));
      for (size_t k = 0; k < SizeOf(kernel.tiled()); ++k) {
        TRY(In(kernel.tiled()->Get(k)->extent(), dims_, "tiled dim"));
        if (kernel.tiled()->Get(k)->tile() == 0) return Corrupt("tile of kernel", i);
      }
      for (size_t k = 0; k < SizeOf(kernel.specials()); ++k) {
        const proto::SpecialKernel& special = *kernel.specials()->Get(k);
        TRY(In(special.kernel(), SizeOf(m_.kernels()), "special kernel"));
        const size_t values = SizeOf(special.values());
        if (values == 0 || values != SizeOf(kernel.deciding())) return Corrupt("value of special kernel", k);
      }
    }
    return {};
  }

  Status CheckCost(const proto::Cost* cost) {
    if (cost == nullptr) return {};
    if (cost->flops() >= 0) TRY(In(static_cast<uint32_t>(cost->flops()), dims_, "operation count"));
    TRY(In(static_cast<uint64_t>(cost->dtype()), guards::kDTypeCount, "dtype"));
    for (const auto* list : {cost->reads(), cost->writes()}) {
      for (size_t i = 0; i < SizeOf(list); ++i) {
        TRY(In(list->Get(static_cast<uint32_t>(i))->range(), dims_, "bytes"));
        TRY(In(list->Get(static_cast<uint32_t>(i))->accessed(), dims_, "bytes"));
      }
    }
    return {};
  }

  Status CheckArg(const proto::PlanArg& arg) {
    const size_t ints = SizeOf(arg.ints());
    const size_t floats = SizeOf(arg.floats());
    const auto one = [&](size_t found) { return found == 1 ? Status() : Status(Corrupt("argument part", found)); };
    switch (arg.kind()) {
      case proto::ArgKind::None:
      case proto::ArgKind::FloatList: return {};
      case proto::ArgKind::String: return {};  // Without a text it is empty.
      case proto::ArgKind::Value:
        TRY(one(ints));
        return In(static_cast<uint32_t>(arg.ints()->Get(0)), values_, "value");
      case proto::ArgKind::ValueList:
        for (size_t i = 0; i < ints; ++i) {
          if (arg.ints()->Get(i) != -1) TRY(In(static_cast<uint32_t>(arg.ints()->Get(i)), values_, "value"));
        }
        return {};
      case proto::ArgKind::Number:
        if (arg.number_kind() == 2) return one(floats);
        [[fallthrough]];
      case proto::ArgKind::Int: TRY(one(ints)); return In(static_cast<uint32_t>(arg.ints()->Get(0)), dims_, "dim");
      case proto::ArgKind::IntList:
        for (size_t i = 0; i < ints; ++i) TRY(In(static_cast<uint32_t>(arg.ints()->Get(i)), dims_, "dim"));
        return {};
      case proto::ArgKind::Bool: return one(ints);
      case proto::ArgKind::BoolList: return {};
      case proto::ArgKind::Float: return one(floats);
      case proto::ArgKind::DType:
        TRY(one(ints));
        return In(static_cast<uint32_t>(arg.ints()->Get(0)), guards::kDTypeCount, "dtype");
    }
    return Corrupt("argument kind", static_cast<uint64_t>(arg.kind()));
  }

  /// By name alone: what it may do besides, its schema says to whoever looks it up.
  static Status CheckOperator(std::string_view name) {
    if (proto::IsOperatorName(name) && proto::IsAdmitted(proto::OperatorSpaceOf(name))) return {};
    return Error(Code::kCorrupt, fmt::format("manifest: operator '{}' is none that a plan may name", name));
  }

  Status CheckStep(const proto::PlanStep& step) {
    for (size_t i = 0; i < SizeOf(step.args()); ++i) TRY(CheckArg(*step.args()->Get(i)));
    TRY(All(step.results(), values_, "result"));
    TRY(All(step.buffers(), values_, "buffer"));
    TRY(All(step.symbols(), dims_, "kernel symbol"));
    TRY(All(step.memories(), values_, "written memory"));
    TRY(All(step.targets(), values_, "target"));
    const size_t memories = SizeOf(step.memories());
    const bool may_write = step.kind() == proto::StepKind::Aten && step.inplace() < 0;
    if (step.taken() > memories || SizeOf(step.targets()) != memories || (memories > 0 && !may_write))
      return Corrupt("written memory", step.taken());
    TRY(CheckCost(step.cost()));
    const auto is_value = [&](size_t arg) {
      return SizeOf(step.args()) > arg && step.args()->Get(arg)->kind() == proto::ArgKind::Value;
    };
    switch (step.kind()) {
      case proto::StepKind::Kernel:
        TRY(In(step.kernel(), SizeOf(m_.kernels()), "kernel"));
        return All(m_.kernels()->Get(step.kernel())->deciding(), SizeOf(step.symbols()), "deciding symbol");
      case proto::StepKind::Aten:
        if (step.op() == nullptr) return Corrupt("operator name", 0);
        TRY(CheckOperator(step.op()->string_view()));
        if (step.inplace() >= 0 && (!is_value(static_cast<size_t>(step.inplace())) || SizeOf(step.results()) != 1))
          return Corrupt("in-place argument", static_cast<uint64_t>(step.inplace()));
        return {};
      case proto::StepKind::Copy:
        return is_value(0) && SizeOf(step.results()) == 1 ? Status() : Status(Corrupt("copied value", 0));
      case proto::StepKind::Guard:
        return is_value(0) && SizeOf(step.args()) == 2 ? Status() : Status(Corrupt("guarded value", 0));
    }
    return Corrupt("step kind", static_cast<uint64_t>(step.kind()));
  }

  const proto::Manifest& m_;
  uint64_t constants_bytes_;
  size_t dims_, values_, steps_;
  std::vector<uint32_t> dim_depths_, dim_weights_;  ///< of those checked
  uint64_t weights_ = 0;  ///< of those checked that have atoms
};

}  // namespace

Status CheckManifest(const proto::Manifest& manifest, uint64_t constants_bytes) {
  return Checker(manifest, constants_bytes).Check();
}

}  // namespace ingot::client
