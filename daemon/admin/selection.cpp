// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace ingot::daemon {
namespace {

/// Functions looked at for one whose name contains a text.
constexpr size_t kFunctionsLikeMax = 4096;

bool IsSince(Core& core, const Digest& entry, uint64_t since) {
  if (since == 0) return true;
  const auto stat = core.store.StatOf(cache::Table::kEntries, entry);
  return stat && std::max(stat->used, stat->created) >= static_cast<int64_t>(since);
}

Task<std::vector<Digest>> OfFunction(Core& core, std::string function, Until until) {
  std::vector<Digest> out;
  const auto add = [&](std::string name) -> Task<void> {
    std::string after;
    do {
      CO_TRY_ASSIGN(Entries::Names names, co_await core.entries.PageOfFunction(name, after, Entries::kPageRows, until));
      out.insert(out.end(), names.digests.begin(), names.digests.end());
      after = std::move(names.next);
    } while (!after.empty());
    co_return Status();
  };
  CO_TRY(co_await add(function));
  if (!out.empty()) co_return out;
  CO_TRY_ASSIGN(const std::vector<std::string> names,
                co_await core.entries.FunctionsLike(function, kFunctionsLikeMax, until));
  for (const std::string& name : names) CO_TRY(co_await add(name));
  co_return out;
}

Task<std::vector<Digest>> Every(Core& core, Until until) {
  std::vector<Digest> out;
  std::string after;
  do {
    CO_TRY_ASSIGN(Entries::Names names, co_await core.entries.Page(after, Entries::kPageRows, until));
    out.insert(out.end(), names.digests.begin(), names.digests.end());
    after = std::move(names.next);
  } while (!after.empty());
  co_return out;
}

}  // namespace

Task<std::vector<Digest>> SelectEntries(const VerbCall& call) {
  const std::string function = call.Text("function");
  std::vector<Digest> named;
  const auto keys = call.arguments.find("keys");
  if (keys != call.arguments.end() && keys->is_array()) {
    for (const Json& key : *keys) {
      if (!key.is_string()) co_return Error(Code::kInvalid, "a key is a text");
      CO_TRY_ASSIGN(const Digest digest, co_await FindEntry(call, key.get<std::string>()));
      named.push_back(digest);
    }
  }
  std::vector<Digest> found;
  if (call.Flag("all")) {
    CO_TRY_ASSIGN(found, co_await Every(call.core, call.until));
  } else if (!function.empty()) {
    CO_TRY_ASSIGN(found, co_await OfFunction(call.core, function, call.until));
    if (found.empty()) {
      co_return Error(Code::kNotFound, fmt::format("no function '{}' is stored; `ingot list` shows what is", function));
    }
    std::ranges::sort(found, {}, [](const Digest& digest) { return digest.ToHex(); });
  } else if (named.empty()) {
    co_return Error(Code::kInvalid, "say what: keys, --function NAME or --all");
  }
  const uint64_t since = call.Number("since", 0);
  std::erase_if(found, [&](const Digest& digest) { return !IsSince(call.core, digest, since); });
  named.insert(named.end(), found.begin(), found.end());
  std::unordered_set<Digest> seen;
  std::erase_if(named, [&](const Digest& digest) { return !seen.insert(digest).second; });
  if (named.empty()) co_return Error(Code::kNotFound, "nothing that is stored fits; `ingot list` shows what is");
  co_return named;
}

}  // namespace ingot::daemon
