// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/key_json.h"

#include <algorithm>

#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

Error NoComponents() {
  return Error(Code::kInvalid, "'components' is no list of [name, [[item, digest in hex, text], ...]]");
}

bool IsText(const Json& value) { return value.is_string(); }

}  // namespace

Result<proto::EntryKeyT> KeyOf(const VerbCall& call) {
  const Json components = call.arguments.value("components", Json::array());
  if (!components.is_array() || components.empty()) return NoComponents();
  proto::EntryKeyT key;
  for (const Json& each : components) {
    if (!each.is_array() || each.size() != 2 || !IsText(each[0]) || !each[1].is_array()) return NoComponents();
    auto component = std::make_unique<proto::ComponentT>();
    component->name = each[0].get<std::string>();
    for (const Json& one : each[1]) {
      if (!one.is_array() || one.size() != 3 || !std::ranges::all_of(one, IsText)) return NoComponents();
      TRY_ASSIGN(const Digest digest, Digest::FromHex(one[1].get<std::string>()));
      auto item = std::make_unique<proto::ItemT>();
      item->name = one[0].get<std::string>();
      item->low = digest.low;
      item->high = digest.high;
      item->text = one[2].get<std::string>();
      component->items.push_back(std::move(item));
    }
    key.components.push_back(std::move(component));
  }
  TRY(SetTenant(key, call.caller.tenant));
  return key;
}

}  // namespace ingot::daemon
