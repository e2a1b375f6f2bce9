// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>

#include "base/clock.h"
#include "base/mutex.h"
#include "cache/trust/provenance.h"
#include "cache/trust/revocation.h"

namespace ingot::cache {

/// Which fetched artifacts are compiled again here to see whether their builders tell the truth, and what follows.
/// Builds are deterministic, so any other byte is a fault of the builder's machine, or worse.
///
/// Decides only: the caller compiles. Which artifacts are looked at follows from their digests and a secret of this
/// process: no builder can know them beforehand. Thread-safe.
class ShadowPolicy {
 public:
  struct Options {
    /// One artifact in so many is compiled again; 0: none.
    uint64_t one_in = 200;
    /// Share of idle time that may be spent, 0 to 1.
    double idle_share = 0.2;
    /// Seconds of that time that can be saved up. One artifact that costs more is compiled when all is saved up.
    double budget_s_max = 600;
    /// Artifacts that wait; more are let go, and counted.
    size_t waiting_max = 64;
    /// Digests that are remembered as looked at.
    size_t checked_max = 65'536;
    /// What makes code here: nothing else can be compared.
    std::string compiler;
    std::string target;
  };
  using Random = std::function<uint64_t()>;

  ShadowPolicy(Options options, const Clock& clock, const Random& random);

  /// An artifact has come whose signature and bytes hold. True when it will be looked at.
  bool Fetched(const Provenance& provenance);
  /// Whether the machine has nothing better to do, from now on.
  void SetIdle(bool idle);
  /// What to compile now, if anything: one at a time, and only while idle. Finish or Abandon answers it.
  std::optional<Provenance> Next();

  enum class Outcome : uint8_t {
    kEqual,
    /// It differs: Next gives it once more, to tell a builder's fault from one of this machine.
    kOnceMore,
    /// It differs, and this machine makes the same bytes each time.
    kDifferent,
    /// This machine makes other bytes each time: nothing is said of the builder.
    kUnstable,
  };
  struct Finding {
    Outcome outcome = Outcome::kEqual;
    /// kDifferent: what to put into the quarantine file; all of the key's, whatever it says of host and time.
    std::optional<Revocation> revocation;
  };
  /// What compiling it again gave, and the seconds it took.
  Finding Finish(const Sha256& compiled, double seconds);
  /// It could not be compiled (graph gone, out of memory, stopped): nothing is said of the builder.
  void Abandon(double seconds);

  struct Counts {
    uint64_t fetched = 0, chosen = 0, equal = 0, different = 0, unstable = 0, abandoned = 0, let_go = 0;
  };
  Counts counts() const;
  /// Whether something waits for idle time, or for what may be spent of it.
  bool has_waiting() const;
  /// Seconds that may be spent now.
  double budget_s();

 private:
  struct Candidate {
    Provenance provenance;
    std::optional<Sha256> compiled_before;
  };
  bool Chooses(const Sha256& artifact) const;
  void Accrue() REQUIRES(mutex_);
  void Spend(double seconds) REQUIRES(mutex_);

  const Options options_;
  const Clock& clock_;
  std::array<uint8_t, 16> secret_;
  mutable Mutex mutex_;
  std::deque<Candidate> waiting_ GUARDED_BY(mutex_);
  std::optional<Candidate> running_ GUARDED_BY(mutex_);
  // Checked by artifact and builder: several may have built one artifact.
  std::deque<std::string> checked_ GUARDED_BY(mutex_);
  std::unordered_set<std::string> is_checked_ GUARDED_BY(mutex_);
  bool idle_ GUARDED_BY(mutex_) = false;
  int64_t since_ns_ GUARDED_BY(mutex_) = 0;
  double budget_s_ GUARDED_BY(mutex_) = 0;
  Counts counts_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
