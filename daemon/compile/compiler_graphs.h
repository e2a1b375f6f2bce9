// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/state/ports.h"

namespace ingot::daemon {

/// Graphs as the compiler's importer and IR see them. Links no LLVM: that stays in the workers.
class CompilerGraphs final : public Graphs {
 public:
  Result<std::string> Import(Bytes recording, const Wishes& wishes) const override;
  Result<Ranged> Generalize(Bytes recording, const Wishes& wishes) const override;
  Result<std::string> Unify(std::string_view a, std::string_view b) const override;
  Result<std::vector<int64_t>> SymbolsOf(std::string_view graph_template, std::string_view exact) const override;
  Result<Digest> DigestOf(std::string_view graph) const override;
  Result<Digest> DigestOfInstance(std::string_view graph_template, const std::vector<int64_t>& symbols) const override;
  Result<std::string> RangeFrom(std::string_view graph_template, const Ranged& other) const override;
  Result<std::string> RangeOf(std::string_view graph_template, std::string_view range,
                              size_t degree_max) const override;
};

}  // namespace ingot::daemon
