// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "daemon/admin/key_json.h"
#include "daemon/admin/verbs.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

constexpr size_t kNoteBytesMax = 512 << 10;

}  // namespace

/// A client found that calls of a key are no one graph, or what is to be known of a callable before its keys are made.
/// The next process is told what it `note`s of that, and need not find it out.
Task<Json> SplitVerb(const VerbCall& call) {
  const std::string note = call.Text("note");
  if (note.empty() || note.size() > kNoteBytesMax) {
    co_return Error(Code::kInvalid, fmt::format("a note of {} bytes: 1 to {} are kept", note.size(), kNoteBytesMax));
  }
  CO_TRY_ASSIGN(const proto::EntryKeyT key, KeyOf(call));
  const Digest digest = ToKey(key).ToDigest();
  Entries::Change change = [&note](proto::EntryRecordT& record) { record.in_parts = note; };
  CO_TRY(co_await call.core.entries.Update(digest, key, std::move(change), call.until));
  co_return Json{{"key", digest.ToHex()}};
}

/// The note of a key, or "". No look-up of an entry: nothing is missed where there is none.
Task<Json> NotedVerb(const VerbCall& call) {
  CO_TRY_ASSIGN(const proto::EntryKeyT key, KeyOf(call));
  cache::Key asked = ToKey(key);
  const Result<EntryRef> entry = co_await call.core.entries.Of(std::move(asked), call.until);
  if (!entry && entry.error().code() != Code::kNotFound) co_return entry.error();
  if (entry) call.core.uses.Write(**entry);
  co_return Json{{"note", entry ? (*entry)->record.in_parts : ""}};
}

}  // namespace ingot::daemon
