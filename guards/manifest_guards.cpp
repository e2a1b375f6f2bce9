// SPDX-License-Identifier: Apache-2.0
#include "guards/manifest_guards.h"

#include <algorithm>
#include <string_view>

#include "guards/tensor_rules.h"

namespace ingot::guards {
namespace {

/// Adds under the spec's name; under its number too where the name is missing or taken.
uint16_t AddSpec(GuardSet& set, const proto::InputSpec& spec, std::string_view noun) {
  const auto count = set.inputs().size();
  std::string name = spec.name() == nullptr ? "" : spec.name()->str();
  while (name.empty() || std::ranges::find(set.inputs(), name) != set.inputs().end()) {
    name += (name.empty() ? std::string(noun) : "") + "#" + std::to_string(count);
  }
  return set.AddInput(name);
}

void MustEqual(GuardSet& set, Property property, const Dim& value) {
  // A plan with numbers beyond the limits of guards cannot be served by any tensor.
  if (value.SymbolCount() > Guard::kFirstProperty || !set.AddEqual(set.Of(property), value)) {
    Ignore(set.AddEqual(Dim(1), Dim(0)), "both numbers are small");
  }
}

void AddKinds(GuardSet& set, const proto::Value& value, uint16_t input) {
  const auto rank = value.sizes() == nullptr ? 0 : value.sizes()->size();
  const auto dtype = static_cast<DType>(value.dtype());
  Ignore(set.Add({.kind = Guard::Kind::kDType, .input = input, .dtype = dtype}), "no numbers");
  Ignore(set.Add({.kind = Guard::Kind::kDevice, .input = input, .text = "cpu"}), "no numbers");
  MustEqual(set, {Property::Kind::kRank, input}, Dim(rank));
}

void AddShape(GuardSet& set, const proto::Manifest& manifest, const proto::Value& value, uint16_t input) {
  const auto rank = static_cast<uint16_t>(value.sizes() == nullptr ? 0 : value.sizes()->size());
  for (uint16_t d = 0; d < rank; ++d) {
    MustEqual(set, {Property::Kind::kSize, input, d}, DimAt(manifest, value.sizes()->Get(d)));
  }
  for (uint16_t d = 0; d < rank; ++d) {
    MustEqual(set, {Property::Kind::kStride, input, d}, DimAt(manifest, value.strides()->Get(d)));
  }
}

void AddSpecs(GuardSet& set, const proto::Manifest& manifest, const InputSpecs* specs) {
  if (specs == nullptr) return;
  const auto value = [&](uint32_t i) -> const proto::Value& { return *manifest.values()->Get(specs->Get(i)->value()); };
  for (const proto::InputSpec* spec : *specs) AddSpec(set, *spec, "input");
  for (uint16_t i = 0; i < specs->size(); ++i) AddKinds(set, value(i), i);
  for (uint16_t i = 0; i < specs->size(); ++i) AddShape(set, manifest, value(i), i);
}

/// Nothing where a size or stride is no number.
std::optional<std::vector<int64_t>> NumbersAt(const proto::Manifest& manifest,
                                              const flatbuffers::Vector<uint32_t>* places) {
  std::vector<int64_t> numbers;
  for (uint32_t i = 0; places != nullptr && i < places->size(); ++i) {
    const Dim dim = DimAt(manifest, places->Get(i));
    if (!dim.is_const()) return std::nullopt;
    numbers.push_back(dim.const_value());
  }
  return numbers;
}

void AddOnce(std::vector<uint32_t>& list, uint32_t item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(item);
}

}  // namespace

Dim DimAt(const proto::Manifest& manifest, uint32_t index) {
  const proto::Dim& dim = *manifest.dims()->Get(index);
  return *ReadDim(dim.coefs(), dim.degrees(), dim.symbols(), dim.atoms(),
                  [&](uint32_t before) { return DimAt(manifest, before); });
}

Written WrittenBy(const proto::Manifest& manifest) {
  Written written;
  for (uint32_t s = 0; manifest.steps() != nullptr && s < manifest.steps()->size(); ++s) {
    const proto::PlanStep& step = *manifest.steps()->Get(s);
    const bool writes =
        step.kind() == proto::StepKind::Kernel || step.kind() == proto::StepKind::Copy || step.inplace() >= 0;
    const auto note = [&](uint32_t id) {
      const proto::Storage& storage = *manifest.storages()->Get(manifest.values()->Get(id)->storage());
      if (storage.kind() == proto::StorageKind::Input) AddOnce(written.inputs, storage.index());
      if (storage.kind() == proto::StorageKind::Weight) AddOnce(written.weights, storage.index());
    };
    for (uint32_t i = 0; writes && step.results() != nullptr && i < step.results()->size(); ++i)
      note(step.results()->Get(i));
    for (uint32_t i = 0; i < step.taken(); ++i) note(step.memories()->Get(i));
  }
  return written;
}

GuardSet SpecGuards(const proto::Manifest& manifest, const InputSpecs* specs) {
  GuardSet set;
  AddSpecs(set, manifest, specs);
  return set;
}

GuardSet ManifestGuards(const proto::Manifest& manifest) {
  GuardSet set = SpecGuards(manifest, manifest.inputs());
  const auto input_count = static_cast<uint16_t>(set.inputs().size());
  const uint32_t weights = manifest.weights() == nullptr ? 0 : manifest.weights()->size();
  for (uint32_t i = 0; i < weights; ++i) AddSpec(set, *manifest.weights()->Get(i), "weight");
  const auto keep_apart = [&](uint16_t a, uint16_t b) {
    if (a != b) Ignore(set.Add({.kind = Guard::Kind::kApart, .input = a, .other = b}), "no numbers");
  };
  if (manifest.conditions() != nullptr) {
    if (const Result<GuardSet> conditions = GuardSet::Parse(manifest.conditions()->string_view())) {
      for (const Guard& guard : conditions->guards()) Ignore(set.Add(guard), "normalised before it was written");
    }
  }
  const Written written = WrittenBy(manifest);
  for (const uint32_t a : written.inputs) {
    for (uint16_t b = 0; b < set.inputs().size(); ++b) keep_apart(static_cast<uint16_t>(a), b);
  }
  for (const uint32_t a : written.weights) {
    for (uint16_t b = 0; b < set.inputs().size(); ++b) keep_apart(static_cast<uint16_t>(input_count + a), b);
  }
  return set;
}

std::optional<std::vector<int64_t>> SymbolsOfExact(const proto::Manifest& manifest, const proto::Manifest& exact) {
  const uint32_t count = manifest.inputs() == nullptr ? 0 : manifest.inputs()->size();
  if (count != (exact.inputs() == nullptr ? 0 : exact.inputs()->size())) return std::nullopt;
  std::vector<std::vector<int64_t>> sizes, strides;
  for (uint32_t i = 0; i < count; ++i) {
    const proto::Value& ours = *manifest.values()->Get(manifest.inputs()->Get(i)->value());
    const proto::Value& value = *exact.values()->Get(exact.inputs()->Get(i)->value());
    const auto its_sizes = NumbersAt(exact, value.sizes()), its_strides = NumbersAt(exact, value.strides());
    const size_t rank = ours.sizes() == nullptr ? 0 : ours.sizes()->size();
    if (!its_sizes || !its_strides || its_sizes->size() != rank || ours.dtype() != value.dtype()) return std::nullopt;
    sizes.push_back(*its_sizes);
    strides.push_back(*its_strides);
  }
  std::vector<int64_t> symbols;
  for (uint32_t i = 0; manifest.symbols() != nullptr && i < manifest.symbols()->size(); ++i)
    symbols.push_back(sizes[manifest.symbols()->Get(i)->input()][manifest.symbols()->Get(i)->dim()]);
  const TensorRules rules(SpecGuards(manifest, manifest.inputs()), symbols.size());
  for (uint32_t i = 0; i < count; ++i) {
    if (!rules.Holds(i, sizes[i].data(), strides[i].data(), symbols.data())) return std::nullopt;
  }
  if (manifest.conditions() != nullptr) {
    const Result<GuardSet> conditions = GuardSet::Parse(manifest.conditions()->string_view());
    if (!conditions || !conditions->Holds(symbols)) return std::nullopt;
  }
  return symbols;
}

}  // namespace ingot::guards
