// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "daemon/convert.h"
#include "daemon/verbs.h"

namespace ingot::daemon {
namespace {

constexpr size_t kNoteBytesMax = 64 << 10;

Error NoComponents() {
  return Error(Code::kInvalid, "'components' is no list of [name, [[item, digest in hex, text], ...]]");
}

bool IsText(const Json& value) { return value.is_string(); }

/// The key whose components a client has put into JSON, as it has them itself.
Result<proto::EntryKeyT> KeyOf(const Json& components) {
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
  return key;
}

}  // namespace

/// A client found that calls of a key are no one graph, and runs their modules apart. The next process is told what it
/// `note`s of that, and need not find it out.
Task<Json> SplitVerb(const VerbCall& call) {
  const std::string note = call.Text("note");
  if (note.empty() || note.size() > kNoteBytesMax) {
    co_return Error(Code::kInvalid, fmt::format("a note of {} bytes: 1 to {} are kept", note.size(), kNoteBytesMax));
  }
  CO_TRY_ASSIGN(const proto::EntryKeyT key, KeyOf(call.arguments.value("components", Json::array())));
  const Digest digest = ToKey(key).ToDigest();
  Entries::Change change = [&note](proto::EntryRecordT& record) { record.in_parts = note; };
  CO_TRY(co_await call.core.entries.Update(digest, key, std::move(change), call.until));
  co_return Json{{"key", digest.ToHex()}};
}

}  // namespace ingot::daemon
