// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/until.h"
#include "cache/index/index.h"
#include "cache/store/key.h"
#include "daemon/state/config.h"
#include "daemon/state/lru.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

using cache::Task;

/// One entry record as it is served. Immutable: an update makes another.
struct Entry {
  Digest digest;
  cache::Key key;
  std::string function;
  proto::EntryRecordT record;
  /// The stored record's; 0 while it is in memory only.
  uint64_t version = 0;
  /// The reply to a lookup, finished: variant i says descriptor i.
  std::shared_ptr<const Buffer> reply;
  std::vector<Digest> artifacts;
};
using EntryRef = std::shared_ptr<const Entry>;

/// What a listing of a function's entries says of each (docs/format/store.md): the numbers of its components.
Buffer SummaryOf(const cache::Key& key);

/// The nearest relative of a key that was not found.
struct Nearest {
  EntryRef entry;
  cache::Difference difference;
};

/// Entry records by digest, those used last in memory. A change is made to the record as it is stored and written
/// where nobody was faster, else made again: no change is lost, also among several daemons. Thread-safe; Peek never
/// blocks on disk.
class Entries {
 public:
  /// Rows of a listing read at a time.
  static constexpr size_t kPageRows = 512;

  Entries(cache::Index& index, const Config& config);

  EntryRef Peek(const Digest& digest);
  /// As Peek, for who looks again later and waits for nobody: nullptr also where another thread is at it just then.
  std::shared_ptr<const Lru<EntryRef>::Kept> PeekKept(const Digest& digest);
  /// kNotFound: absent; kCorrupt: what was stored cannot be read, and is gone.
  Task<EntryRef> Get(Digest digest, Until until);
  /// The entry of just this key. kCorrupt: another key has its digest, which is no witness that they are one.
  Task<EntryRef> Of(cache::Key key, Until until);
  /// As Get, for who goes through many: what memory holds stays what is served.
  Task<EntryRef> Look(Digest digest, Until until);

  using Change = std::function<void(proto::EntryRecordT&)>;
  /// Reads, lets `change` edit and writes back; `change` may be called again on a newer record. A record that is
  /// absent or cannot be read begins with `key` and no variants. A store that refuses writes does not fail this: the
  /// record is kept in memory.
  Task<EntryRef> Update(Digest digest, const proto::EntryKeyT& key, Change change, Until until);
  /// The same of what others have: a loss of power may undo it, and nobody waits for the disk.
  Task<EntryRef> TakeIn(Digest digest, const proto::EntryKeyT& key, Change change, Until until);
  /// As Update for what exists: kNotFound otherwise.
  Task<EntryRef> ChangeStored(Digest digest, Change change, Until until);
  Task<bool> Delete(Digest digest, Until until);
  /// Forgets what memory holds, after the store was changed from outside.
  void Forget(const Digest& digest);

  /// The stored entry of the same function that differs least among those made last, or none.
  Task<std::optional<Nearest>> NearestTo(cache::Key key, Until until);

  /// Digests of stored entries by pages.
  struct Names {
    std::vector<Digest> digests;
    std::string next;
  };
  /// In the order of their hex digits, from the first that is not less than the digits `from` on, or from a page's
  /// `next`.
  Task<Names> Page(std::string after, size_t limit, Until until);
  static Result<std::string> From(const std::string& hex);
  /// Those of a function, the newest first.
  Task<Names> PageOfFunction(std::string function, std::string after, size_t limit, Until until);
  /// Functions whose name contains a text, at most `limit`.
  Task<std::vector<std::string>> FunctionsLike(std::string part, size_t limit, Until until);
  /// Calls `use` for each stored entry that can be read until it returns false; those written or deleted meanwhile
  /// may be missed. `unread` (where not nullptr) counts those that could not be read and are still there.
  Task<void> ForEach(std::function<bool(const EntryRef&)> use, Until until, uint64_t* unread = nullptr);
  /// The same without unpacking: what is asked of all entries costs a tenth so.
  using UseRecord = std::function<bool(const Digest&, const proto::EntryRecord&)>;
  Task<void> ForEachRecord(UseRecord use, Until until, uint64_t* unread = nullptr);

 private:
  struct Read {
    EntryRef entry;  ///< nullptr: absent.
    uint64_t version = 0;
  };
  EntryRef Make(const Digest& digest, proto::EntryRecordT record, uint64_t version) const;
  Task<Read> ReadStored(Digest digest, Until until);
  /// Bytes of the record that memory or the store has; empty: absent.
  Task<Buffer> ReadBytes(Digest digest, Until until);
  /// nullptr where somebody was faster.
  Task<EntryRef> Write(Digest digest, EntryRef before, uint64_t version, proto::EntryRecordT record, bool is_durable,
                       Until until);
  Task<EntryRef> ReadChangeWrite(Digest digest, const proto::EntryKeyT* key, Change change, bool is_durable,
                                 Until until);

  cache::Index& index_;
  const Config& config_;
  Mutex mutex_;
  Lru<EntryRef> recent_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
