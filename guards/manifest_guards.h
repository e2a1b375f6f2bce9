// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "guards/atom.h"
#include "guards/guard_set.h"
#include "guards/normalize.h"
#include "proto/artifact_generated.h"

namespace ingot::guards {

/// The polynomial at position `index` of Manifest.dims. The manifest has been checked.
Dim DimAt(const proto::Manifest& manifest, uint32_t index);

/// Entries of proto::Dim.symbols from here on are its atoms.
inline constexpr uint16_t kFirstAtom = 0x8000;

/// The polynomial that a Dim of a manifest says, in either form that flatbuffers has for one; `dim_at` gives the one at
/// a position before it. Lists may be null. Nothing where a product of atoms unfolds into more than kTermsMax terms,
/// which none of a checked manifest does: of those that are written, each is one term.
template <typename Longs, typename Bytes, typename Shorts, typename Atoms, typename F>
std::optional<Dim> ReadDim(const Longs* coefs, const Bytes* degrees, const Shorts* symbols, const Atoms* atoms,
                           const F& dim_at) {
  std::vector<Dim::Term> terms;
  uint32_t at = 0;
  for (uint32_t i = 0; coefs != nullptr && i < coefs->size(); ++i) {
    Dim::Term term{(*coefs)[i], {}};
    Dim product(1);
    for (uint8_t k = 0; k < (*degrees)[i]; ++k, ++at) {
      const uint16_t symbol = (*symbols)[at];
      if (symbol < kFirstAtom) {
        term.factors.emplace_back(symbol);
        continue;
      }
      const auto& entry = (*atoms)[symbol - kFirstAtom];
      const proto::Atom* atom = nullptr;
      if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(entry)>>) {
        atom = entry;
      } else {
        atom = &entry;
      }
      const Dim next = MakeAtom(static_cast<Atom::Kind>(atom->kind()), dim_at(atom->a()), dim_at(atom->b()));
      if (product.terms().size() * next.terms().size() > kTermsMax) return std::nullopt;
      product = product * next;
    }
    if (product.is_one()) {
      terms.push_back(std::move(term));
    } else {
      const Dim whole = Dim::FromTerms({std::move(term)}) * product;
      terms.insert(terms.end(), whole.terms().begin(), whole.terms().end());
    }
  }
  return Dim::FromTerms(std::move(terms));
}

/// Inputs and weights that the plan writes, by position, in order of the first write.
struct Written {
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> weights;
};
Written WrittenBy(const proto::Manifest& manifest);

using InputSpecs = flatbuffers::Vector<flatbuffers::Offset<proto::InputSpec>>;

/// What tensors must be like to stand for `specs` (Manifest.inputs or Manifest.weights): element
/// type, device, rank, then sizes and strides. Inputs of the set are in the order of the specs;
/// a name that is missing or taken gets its number. The manifest has been checked.
GuardSet SpecGuards(const proto::Manifest& manifest, const InputSpecs* specs);

/// Every guard of a plan: its inputs' and that nothing shares memory with what it writes. Inputs of
/// the set are those of the manifest, then its weights.
GuardSet ManifestGuards(const proto::Manifest& manifest);

/// The values of a plan's symbols at which it takes the inputs that another plan, one for numbers only, takes; nothing
/// where it takes them at none. What shares memory is not looked at. Both manifests have been checked.
std::optional<std::vector<int64_t>> SymbolsOfExact(const proto::Manifest& manifest, const proto::Manifest& exact);

}  // namespace ingot::guards
