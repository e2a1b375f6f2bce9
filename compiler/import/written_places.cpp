// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/written_places.h"

#include <algorithm>

#include "compiler/import/step_call.h"

namespace ingot::compiler {

WrittenPlaces::WrittenPlaces(Recording& recording) {
  for (size_t i = 0; i < recording.step_count(); ++i) {
    const auto* writes = recording.step(i).writes();
    const auto* args = recording.step(i).args();
    if (writes == nullptr || args == nullptr) continue;
    for (const uint8_t position : *writes) {
      const Result<Arg> arg = position < args->size() ? recording.ReadArg(*args->Get(position)) : Arg(None{});
      if (!arg) continue;  // Whoever reads the step says what is wrong.
      ForEachId(*arg, [&](uint32_t id) {
        const Meta& meta = recording.meta(id);
        bytes_[meta.storage].emplace_back(meta.first_byte, meta.end_byte);
      });
    }
  }
}

bool WrittenPlaces::Meet(const Meta& tensor) const {
  const auto found = bytes_.find(tensor.storage);
  return found != bytes_.end() && std::ranges::any_of(found->second, [&tensor](const auto& place) {
           return place.first < tensor.end_byte && tensor.first_byte < place.second;
         });
}

}  // namespace ingot::compiler
