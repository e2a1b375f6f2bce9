// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/variant_table.h"

#include <algorithm>
#include <boost/smart_ptr/make_local_shared.hpp>
#include <utility>

namespace ingot::client {
namespace {

/// Bound variants of one signature, and validated records that nobody uses.
constexpr size_t kBoundMax = 64;

/// Moves the variants that `is_out` names from one to the other.
template <typename F>
void TakeOut(VariantTable::Variants& from, VariantTable::Variants& out, F is_out) {
  VariantTable::Variants kept, gone;
  for (const auto& variant : from) (is_out(*variant) ? gone : kept).push_back(variant);
  from.swap(kept);
  out.insert(out.end(), gone.begin(), gone.end());
}

}  // namespace

boost::local_shared_ptr<VariantTable::OfSignature> VariantTable::Of(const std::string& signature) const {
  const auto it = of_signatures_.find(signature);
  return it == of_signatures_.end() || it->second->variants.empty() ? boost::local_shared_ptr<OfSignature>()
                                                                    : it->second;
}

const boost::local_shared_ptr<VariantTable::OfSignature>& VariantTable::MakeOf(const std::string& signature) {
  boost::local_shared_ptr<OfSignature>& made = of_signatures_[signature];
  if (made == nullptr) made = boost::make_local_shared<OfSignature>();
  return made;
}

boost::local_shared_ptr<Trials> VariantTable::TrialsOf(const std::string& signature) {
  const boost::local_shared_ptr<OfSignature>& of = MakeOf(signature);
  return boost::local_shared_ptr<Trials>(of, &of->trials);
}

/// Keeps what a variant relies on of the process, and lets go what nobody can rely on any more.
void VariantTable::Keep(const std::shared_ptr<const ValidatedRecord>& validated) {
  std::vector<std::shared_ptr<const ValidatedRecord>> kept{validated}, gone;
  for (const auto& one : all_validated_) {
    if (one == validated) continue;
    const bool is_used = one.use_count() > 1;
    (is_used || (kept.size() < kBoundMax && one->is_reusable() && one->Holds()) ? kept : gone).push_back(one);
  }
  all_validated_.swap(kept);
}

size_t VariantTable::Install(const std::string& signature, std::shared_ptr<BoundVariant> variant) {
  Keep(variant->validated());
  OfSignature& served = *MakeOf(signature);
  served.trials.Restart();
  Variants& variants = served.variants;
  variants.insert(variants.begin(), std::move(variant));
  const size_t count = std::min(variants.size(), kBoundMax);
  std::shared_ptr<BoundVariant> dropped;
  if (variants.size() > kBoundMax) {
    dropped = std::move(variants.back());
    variants.pop_back();
  }
  return count;
}

size_t VariantTable::Remove(const Program& program) {
  Variants removed;
  for (auto& [signature, served] : of_signatures_) {
    TakeOut(served->variants, removed, [&](const BoundVariant& variant) { return &variant.program() == &program; });
  }
  return removed.size();
}

void VariantTable::Forget(const std::string& signature, const std::vector<PyObject*>& objects, const Program* program) {
  const boost::local_shared_ptr<OfSignature> served = Of(signature);
  if (served == nullptr) return;
  Variants removed;
  TakeOut(served->variants, removed, [&](const BoundVariant& variant) {
    return (program == nullptr || &variant.program() == program) && variant.ObjectsMatch(objects);
  });
}

void VariantTable::Clear() {
  decltype(of_signatures_) gone;
  gone.swap(of_signatures_);
  decltype(all_validated_) released;
  released.swap(all_validated_);
}

int VariantTable::Traverse(visitproc visit, void* arg) const {
  std::unordered_map<const ValidatedRecord*, long> owners;
  for (const auto& [signature, served] : of_signatures_) {
    for (const auto& variant : served->variants) {
      // A call that runs it holds it too, and what it holds is in use.
      if (variant.use_count() > 1) continue;
      if (const int stop = variant->Traverse(visit, arg)) return stop;
      ++owners[variant->validated().get()];
    }
  }
  for (const auto& validated : all_validated_) {
    if (validated.use_count() != owners[validated.get()] + 1) continue;
    if (const int stop = validated->Traverse(visit, arg)) return stop;
  }
  return 0;
}

}  // namespace ingot::client
