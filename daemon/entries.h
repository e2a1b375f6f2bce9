// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cache/key.h"
#include "cache/store.h"
#include "daemon/config.h"
#include "daemon/entry_index.h"
#include "daemon/lru.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// One entry record as it is served. Immutable: an update makes another.
struct Entry {
  Digest digest;
  cache::Key key;
  std::string function;
  proto::EntryRecordT record;
  /// The reply to a lookup, finished: variant i says descriptor i.
  std::shared_ptr<const Buffer> reply;
  std::vector<Digest> artifacts;
};
using EntryRef = std::shared_ptr<const Entry>;

/// The nearest relative of a key that was not found.
struct Nearest {
  EntryRef entry;
  cache::Difference difference;
};

/// Entry records by digest, those used last in memory. Updates of one entry are serialised.
/// Thread-safe; Peek never blocks on disk.
class Entries {
 public:
  Entries(cache::Store& store, const Config& config);

  EntryRef Peek(const Digest& digest);
  /// kNotFound: absent; kCorrupt: what was stored cannot be read.
  Result<EntryRef> Get(const Digest& digest);

  /// Reads, lets `change` edit and writes back. A record that is absent or cannot be read begins
  /// with `key` and no variants. A store that refuses writes does not fail this: the record is
  /// kept in memory.
  Result<EntryRef> Update(const Digest& digest, const proto::EntryKeyT& key,
                          const std::function<void(proto::EntryRecordT&)>& change);
  /// As Update for what exists: kNotFound otherwise.
  Result<EntryRef> Change(const Digest& digest,
                          const std::function<void(proto::EntryRecordT&)>& change);
  Status Delete(const Digest& digest);
  /// Forgets what memory holds, after the store was changed from outside.
  void Forget(const Digest& digest);

  /// Name of an entry's function as the index has it; "" when it does not.
  std::string FunctionOf(const Digest& digest);

  /// The stored entry of the same function that differs least, or none.
  std::optional<Nearest> NearestTo(const cache::Key& key);
  /// Digests of the entries of a function, of those whose function's name contains a text, of
  /// those whose digest begins with these hex digits, and of all.
  std::vector<Digest> OfFunction(const std::string& function);
  std::vector<Digest> NamedLike(const std::string& part);
  std::vector<Digest> StartingWith(const std::string& prefix);
  std::vector<Digest> All();

 private:
  EntryRef Make(const Digest& digest, proto::EntryRecordT record) const;
  EntryRef Write(const Digest& digest, proto::EntryRecordT record);
  void FillIndex();
  Mutex& LockOf(const Digest& digest) { return update_locks_[digest.low % update_locks_.size()]; }

  cache::Store& store_;
  const Config& config_;
  std::array<Mutex, 64> update_locks_;
  Mutex mutex_;
  Lru<EntryRef> recent_ GUARDED_BY(mutex_);
  /// Filled from the store on first use, kept up to date afterwards.
  EntryIndex index_ GUARDED_BY(mutex_);
  Mutex fill_mutex_;
  bool filled_ GUARDED_BY(fill_mutex_) = false;
};

}  // namespace ingot::daemon
