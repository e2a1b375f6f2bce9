// SPDX-License-Identifier: Apache-2.0
#include "client/native/effects/operator_names.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <boost/unordered/unordered_flat_set.hpp>
#include <string>

namespace ingot::client {

bool IsOperatorName(std::string_view name) {
  // Those of PyTorch itself are there before anybody asks.
  static const auto* const names = [] {
    constexpr std::string_view kSpace = "aten::";
    auto* made = new boost::unordered_flat_set<std::string>;
    for (const c10::OperatorName& one : c10::Dispatcher::singleton().getAllOpNames()) {
      if (one.name.starts_with(kSpace)) made->insert(one.name.substr(kSpace.size()));
    }
    return made;
  }();
  return names->contains(std::string(name));
}

}  // namespace ingot::client
