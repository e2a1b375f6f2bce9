// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/plan_args.h"

#include "guards/manifest_guards.h"

namespace ingot::compiler {
namespace {

template <typename... Fns>
struct Overloaded : Fns... {
  using Fns::operator()...;
};

enum NumberKind : uint8_t { kNumberBool = 0, kNumberInt = 1, kNumberFloat = 2 };

}  // namespace

uint32_t PlanArgs::DimAt(const Dim& dim) {
  if (const auto known = dims_.find(dim); known != dims_.end()) return known->second;
  auto spec = std::make_unique<proto::DimT>();
  for (const Dim::Term& term : dim.terms()) {
    spec->coefs.push_back(term.coef);
    spec->degrees.push_back(static_cast<uint8_t>(term.factors.size()));
    for (const guards::Factor& factor : term.factors) {
      if (factor.is_symbol()) {
        spec->symbols.push_back(factor.symbol());
        continue;
      }
      const guards::Atom& atom = factor.atom();
      spec->symbols.push_back(static_cast<uint16_t>(guards::kFirstAtom + spec->atoms.size()));
      // What an atom is made of stands before it.
      const uint32_t a = DimAt(atom.a), b = DimAt(atom.b);
      spec->atoms.emplace_back(static_cast<uint8_t>(atom.kind), a, b);
    }
  }
  const auto place = static_cast<uint32_t>(plan_.dims.size());
  dims_.emplace(dim, place);
  plan_.dims.push_back(std::move(spec));
  return place;
}

std::unique_ptr<proto::PlanArgT> PlanArgs::ValueArg(uint32_t value) {
  auto arg = std::make_unique<proto::PlanArgT>();
  arg->kind = proto::ArgKind::Value;
  arg->ints = {static_cast<int>(value)};
  return arg;
}

std::unique_ptr<proto::PlanArgT> PlanArgs::Make(const Arg& arg) {
  auto out = std::make_unique<proto::PlanArgT>();
  const auto number = [&](const Number& value) {
    out->kind = proto::ArgKind::Number;
    if (const bool* flag = std::get_if<bool>(&value.value)) {
      out->number_kind = kNumberBool;
      out->ints = {IntAt(Dim(*flag ? 1 : 0))};
    } else if (const Dim* dim = std::get_if<Dim>(&value.value)) {
      out->number_kind = kNumberInt;
      out->ints = {IntAt(*dim)};
    } else {
      out->number_kind = kNumberFloat;
      out->floats = {std::get<double>(value.value)};
    }
  };
  std::visit(Overloaded{
                 [&](const None&) { out->kind = proto::ArgKind::None; },
                 [&](const Ref& ref) {
                   out->kind = proto::ArgKind::Value;
                   out->ints = {static_cast<int>(bound_[ref.id])};
                 },
                 number,
                 [&](bool flag) {
                   out->kind = proto::ArgKind::Bool;
                   out->ints = {flag ? 1 : 0};
                 },
                 [&](const Dim& dim) {
                   out->kind = proto::ArgKind::Int;
                   out->ints = {IntAt(dim)};
                 },
                 [&](double value) {
                   out->kind = proto::ArgKind::Float;
                   out->floats = {value};
                 },
                 [&](const Name& name) {
                   out->kind = proto::ArgKind::String;
                   out->text = name;
                 },
                 [&](const DTypeArg& dtype) {
                   out->kind = proto::ArgKind::DType;
                   out->ints = {static_cast<int>(dtype.dtype)};
                 },
                 [&](const RefList& list) {
                   out->kind = proto::ArgKind::ValueList;
                   for (const ValueId id : list.ids) {
                     out->ints.push_back(id == kNoValue ? -1 : static_cast<int>(bound_[id]));
                   }
                 },
                 [&](const Dims& dims) {
                   out->kind = proto::ArgKind::IntList;
                   for (const Dim& dim : dims) out->ints.push_back(IntAt(dim));
                 },
                 [&](const std::vector<double>& values) {
                   out->kind = proto::ArgKind::FloatList;
                   out->floats = values;
                 },
                 [&](const std::vector<bool>& flags) {
                   out->kind = proto::ArgKind::BoolList;
                   for (const bool flag : flags) out->ints.push_back(flag ? 1 : 0);
                 },
             },
             arg);
  return out;
}

}  // namespace ingot::compiler
