// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cache/trust/trust_policy.h"

namespace ingot::cache {

/// Where the trust file (trust.toml), the quarantine file (quarantine.toml) and the private key (signing.key) are
/// unless somebody says otherwise: $XDG_CONFIG_HOME/ingot, or ~/.config/ingot. kInvalid: neither is set.
Result<std::string> TrustDirectory();

/// Reads a file that says whom to trust. kNotFound; kUnavailable, with what to do: the file or its directory belongs
/// to another user (root's are right), or others may write it.
Result<std::string> ReadTrustText(const std::string& path);
/// Lets `edit` make another text of the file's, and replaces the file as a whole; a file that is not there is made,
/// mode 0600, with its directory. Edits of several processes happen one after the other; a link stays, what it names
/// is replaced. Errors: as ReadTrustText, and those of `edit`, after which nothing has changed.
Status EditTrustText(const std::string& path, const std::function<Result<std::string>(const std::string&)>& edit);

/// The trust file as it is now: judges what comes from elsewhere. Thread-safe; a judgement uses one state of the
/// file from its beginning to its end.
///
/// Whatever keeps the file from being used (gone, damaged, writable by others) ends all trust, with that reason: an
/// old list could lack a revocation.
class Trust {
 public:
  struct Options {
    std::string path;
    /// File of revocations that this machine makes itself; may be absent. Empty: none.
    std::string quarantine_path;
    std::optional<PublicKey> own;
  };
  Trust(Options options, const Clock& clock);

  /// Reads the files again where they have changed; a few system calls where they have not. The error is also the
  /// reason of all judgements until it is mended.
  Status Refresh();
  /// The policy in force: null where there is none.
  std::shared_ptr<const TrustPolicy> policy() const;

  Judgement JudgeRecord(const Received& received, Bytes envelope) const;
  /// As TrustPolicy's, for looking at an envelope.
  Judgement JudgeEnvelope(Bytes envelope, Statement kind = Statement::kProvenance) const;
  Judgement JudgeFor(const Asked& asked, Bytes envelope) const;
  /// Judges again by the policy of now, so that what was revoked since the record was judged is not served.
  Judgement Judge(const Received& received, Bytes envelope, Bytes artifact) const;

  /// Writes a revocation into the quarantine file and puts it in force.
  Status Quarantine(const Revocation& revocation);

 private:
  struct State {
    std::shared_ptr<const TrustPolicy> policy;
    std::string trouble;
  };
  /// Tells whether files have changed.
  static std::string StampOf(const std::string& path);
  State Current() const;

  const Options options_;
  const Clock& clock_;
  /// One reads at a time, so that an older text never replaces a newer one.
  Mutex refresh_mutex_;
  std::string stamp_ GUARDED_BY(refresh_mutex_);
  mutable Mutex mutex_;
  State state_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
