// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/mutex.h"
#include "base/result.h"
#include "client/lib/connect/channel.h"
#include "proto/endpoint.h"
#include "proto/frame.h"
#include "proto/service_generated.h"

namespace ingot::client {

/// The pages by which a process shares the machine with others (docs/format/load.md), as the daemon gives them.
struct LoadFiles {
  UniqueFd own;
  UniqueFd machine;
  int row = 0;
  uint32_t holder = 0;
};

struct ConnectionOptions {
  std::string store_dir;  ///< Empty: as proto::ResolveEndpoint.
  std::string socket;     ///< Empty: as proto::ResolveEndpoint.
  std::string daemon;     ///< Path of ingotd; empty: as FindDaemon.
  /// Further arguments of a daemon that is started, e.g. {"--idle-exit-s", "60"}.
  std::vector<std::string> daemon_arguments;
  std::string kind = "cpp";  ///< "python", "cpp", "cli"
  std::string build = std::string(proto::BuildId());
  bool start = true;  ///< Start a daemon when there is none.
  /// Queries go to where the daemon is administered, where that can be reached: their answers are whole.
  bool administers = false;
  int start_ms_max = 10'000;
  int hello_ms_max = 10'000;
  /// Takes the pages of each connection; none: this process runs no calls.
  std::function<void(const LoadFiles&)> take_load;
};

/// Answers with their files: variant i's artifact is `files[variants[i].descriptor]`.
struct LookupAnswer {
  proto::LookupReplyT reply;
  std::vector<UniqueFd> files;
};
struct CompileAnswer {
  proto::CompileReplyT reply;
  UniqueFd file;
};

/// What this process says to the daemon of one store. Needs no torch.
///
/// The daemon is the one that holds the store's lock, at the socket that is named there; it is
/// started when there is none. Daemons of other builds have stores of their own and are left alone.
/// When the daemon goes, calls in progress end with kUnavailable and the next call connects
/// anew; after fork() the child connects anew too. Thread-safe; deadlines in milliseconds,
/// negative = none.
class Connection {
 public:
  static Result<std::unique_ptr<Connection>> Open(ConnectionOptions options = {});

  Result<LookupAnswer> Lookup(const proto::LookupT& request, int deadline_ms = -1);
  Result<LookupAnswer> Lookup(const proto::EntryKeyT& key, int deadline_ms = -1, bool again = false);
  Result<CompileAnswer> Compile(const proto::CompileT& request, int deadline_ms = -1);
  /// Arguments and answer are JSON (docs/cli.md); `files` are descriptors that go with it, in the caller's hands. What
  /// is for who administers the daemon is asked at the socket where that is done; kDenied where that cannot be reached.
  Result<std::string> Query(const std::string& verb, const std::string& json = "{}", int deadline_ms = -1,
                            const std::vector<int>& files = {});
  /// The artifact of that digest as a sealed memory file.
  Result<UniqueFd> Fetch(const Digest& digest, int deadline_ms = -1);

  const proto::Endpoint& endpoint() const { return endpoint_; }
  /// Process id of the daemon last spoken to, and where it answers.
  uint32_t daemon_pid() const;
  std::string daemon_socket() const;

 private:
  Connection(ConnectionOptions options, proto::Endpoint endpoint);

  Result<proto::Frame> Call(proto::MessageType type, proto::MessageType reply, Bytes body, int deadline_ms);
  Result<std::shared_ptr<Channel>> Ensure();
  /// A query, to who administers. kDenied: he cannot be reached.
  Result<proto::Frame> AskAdmin(Bytes body, int deadline_ms, const std::vector<int>& files);
  /// To where the daemon last spoken to is administered. kUnavailable.
  Result<std::shared_ptr<Channel>> Administer();
  Result<std::shared_ptr<Channel>> Connect() REQUIRES(mutex_);
  /// A channel to the daemon that serves this store, which has said hello. kUnavailable: there is none; waits up to
  /// `wait_ms` for one that is about to name its socket.
  Result<std::shared_ptr<Channel>> Find(int wait_ms) REQUIRES(mutex_);
  Result<std::shared_ptr<Channel>> Greet(const std::string& socket) REQUIRES(mutex_);
  Error NoDaemon() const;
  /// Of a daemon that holds the store, takes connections and says nothing.
  Error Silent(const std::optional<proto::LockHolder>& holder, const Error& why) const;

  const ConnectionOptions options_;
  const proto::Endpoint endpoint_;
  mutable Mutex mutex_;
  std::shared_ptr<Channel> channel_ GUARDED_BY(mutex_);
  pid_t owner_ GUARDED_BY(mutex_) = 0;
  uint32_t daemon_pid_ GUARDED_BY(mutex_) = 0;
  std::string daemon_socket_ GUARDED_BY(mutex_);
  std::string admin_socket_ GUARDED_BY(mutex_);
  /// Made when it is first needed; of the process that made `channel_`.
  std::shared_ptr<Channel> admin_ GUARDED_BY(mutex_);
};

}  // namespace ingot::client
