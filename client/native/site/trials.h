// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace ingot::client {

/// Whether it pays to serve one signature's calls: served calls and calls of the plain function are timed in turn, and
/// where those are faster, calls of such sizes run them, until another trial says otherwise. Needs the GIL.
///
/// `sizes` stands for calls that take about as long as each other (`SizesOf`). Of two equal turns in a row the second
/// is timed: the first finds the caches as the other way has left them. Which way begins a round is as good as random,
/// since calls may follow a rhythm of their own.
class Trials {
 public:
  enum class Turn : uint8_t { kServed, kPlain, kTimedServed, kTimedPlain };
  struct Verdict {
    uint64_t sizes = 0;
    bool stands_aside = false;  ///< the plain function is faster
    std::chrono::nanoseconds served{}, plain{};  ///< medians
  };

  /// Calls before the first trial; what they make is found made by those that are timed.
  static constexpr uint32_t kBefore = 8;

  explicit Trials(uint32_t before = kBefore) : before_(before), left_(before), quiet_(before) {}

  /// Whether the next call is served whatever its sizes are: it passes.
  bool IsQuiet() const { return left_ > 0 && aside_.empty(); }
  void Pass() { --left_; }
  /// Whether calls of such sizes are tried right now.
  bool IsTrying(uint64_t sizes) const { return trial_ && trial_->sizes == sizes; }
  /// What the next call does otherwise. A trial begins where `may_begin` says so.
  Turn Next(uint64_t sizes, const std::function<bool()>& may_begin);

  /// A call whose turn was timed took so long, and gave its answer that way. What a trial comes to, where it ends a
  /// trial and is another verdict than the one before.
  std::optional<Verdict> Note(Turn turn, uint64_t sizes, std::chrono::nanoseconds took);

  /// The next calls of such sizes run the plain function, then they are served again.
  void StandAside(uint64_t sizes, uint32_t calls);
  /// Something else serves from now on.
  void Restart();

 private:
  static constexpr size_t kRoundsMax = 15;

  struct Trial {
    uint64_t sizes;
    bool was_aside;
    uint32_t calls = 0, step = 0;  ///< steps of a round: two turns of one way, two of the other
    size_t rounds = 0, clear = 0;  ///< clear: so much faster that noise does not explain it
    int slower = 0;                ///< rounds in which serving was slower, less the others
    std::array<int64_t, kRoundsMax> served{}, plain{};

    bool IsPlain() const;
    Turn Next();
    /// Ends a round; whether the trial stands aside, where it is over.
    std::optional<bool> Judge();
  };
  struct Aside {
    uint32_t left, calls;
    bool is_own;  ///< by a trial here, so that another follows
  };

  void Settle(bool stands_aside);
  void Keep(uint64_t sizes, Aside aside);

  uint32_t before_, left_, quiet_;
  std::optional<Trial> trial_;
  std::unordered_set<uint64_t> settled_;  ///< sizes that have been tried
  std::unordered_map<uint64_t, Aside> aside_;
};

}  // namespace ingot::client
