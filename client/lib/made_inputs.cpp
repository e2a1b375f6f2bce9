// SPDX-License-Identifier: Apache-2.0
#include "client/lib/made_inputs.h"

#include <ATen/Functions.h>

namespace ingot::client {

Result<MadeInputs> MadeInputs::Of(const proto::Manifest& manifest) {
  MadeInputs found;
  const auto* inputs = manifest.inputs();
  for (uint32_t i = 0; inputs != nullptr && i < inputs->size(); ++i) {
    const auto* name = inputs->Get(i)->name();
    const bool is_made = name != nullptr && guards::IsMadeSize(name->string_view());
    if (!is_made && !found.sizes_.empty())
      return Error(Code::kCorrupt, "an input that is passed stands behind one that is made");
    if (!is_made) continue;
    auto size = guards::ParseMadeSize(name->string_view());
    if (!size) return Error(Code::kCorrupt, size.error().message());
    found.sizes_.push_back(*std::move(size));
  }
  const auto* symbols = manifest.symbols();
  for (uint32_t i = 0; symbols != nullptr && i < symbols->size(); ++i)
    found.places_.emplace_back(symbols->Get(i)->input(), symbols->Get(i)->dim());
  return found;
}

bool MadeInputs::Add(std::vector<const at::Tensor*>& all, std::vector<at::Tensor>& made) const {
  made.reserve(sizes_.size());
  for (const guards::MadeSize& size : sizes_) {
    // Each is made of symbols before its own.
    std::vector<int64_t> symbols;
    for (const auto& [input, dim] : places_) {
      if (input >= all.size()) break;
      if (static_cast<int64_t>(dim) >= all[input]->dim()) return false;
      symbols.push_back(all[input]->size(dim));
    }
    const auto value = size.Eval(symbols);
    if (!value || *value < 0) return false;
    made.push_back(at::empty_strided({*value}, {0}, at::kFloat));
    all.push_back(&made.back());
  }
  return true;
}

}  // namespace ingot::client
