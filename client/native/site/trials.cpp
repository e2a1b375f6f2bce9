// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/trials.h"

#include <algorithm>

namespace ingot::client {
namespace {

// Calls between trials of what is settled, and while calls stand aside.
constexpr uint32_t kQuietMax = 1 << 16, kAsideMin = 256;
// Calls of other sizes, or that were answered otherwise, after which a trial is given up.
constexpr uint32_t kCallsMax = 256;
constexpr size_t kSettledMax = 64, kAsideSizesMax = 16;
constexpr int kLead = 5, kLeadAtEnd = 3;
constexpr size_t kClearRounds = 2;

/// Serving is taken for slower by as much as nobody minds, and for faster again by as much: it does not go to and fro.
bool IsSlower(int64_t served, int64_t plain, bool was_aside) {
  constexpr int64_t kUnnoticedNs = 1500;
  return was_aside ? served > plain - plain / 32 : served > plain + plain / 100 + kUnnoticedNs;
}

/// The bits of an irrational number: no rhythm.
bool Random(size_t round) { return (0x9E3779B97F4A7C15U >> (round % 64) & 1) != 0; }

template <size_t N>
std::chrono::nanoseconds Median(std::array<int64_t, N> times, size_t count) {
  std::sort(times.begin(), times.begin() + static_cast<ptrdiff_t>(count));
  return std::chrono::nanoseconds(times[count / 2]);
}

}  // namespace

bool Trials::Trial::IsPlain() const { return (step >= 2) != Random(rounds); }

Trials::Turn Trials::Trial::Next() {
  ++calls;
  const bool is_plain = IsPlain();
  if (step % 2 == 1) return is_plain ? Turn::kTimedPlain : Turn::kTimedServed;
  ++step;
  return is_plain ? Turn::kPlain : Turn::kServed;
}

std::optional<bool> Trials::Trial::Judge() {
  step = 0;
  const int64_t of_served = served[rounds], of_plain = plain[rounds];
  ++rounds;
  slower += IsSlower(of_served, of_plain, was_aside) ? 1 : -1;
  clear += of_served < of_plain - of_plain / 5 ? 1 : 0;
  if (clear == rounds && clear >= kClearRounds) return false;
  if (was_aside && slower >= static_cast<int>(kClearRounds)) return true;
  if (slower >= kLead) return true;
  if (slower <= -kLead) return false;
  if (rounds < kRoundsMax) return std::nullopt;
  return was_aside ? slower > -kLeadAtEnd : slower >= kLeadAtEnd;
}

Trials::Turn Trials::Next(uint64_t sizes, const std::function<bool()>& may_begin) {
  auto aside = aside_.find(sizes);
  if (aside != aside_.end()) {
    if (aside->second.left > 0) {
      --aside->second.left;
      return Turn::kPlain;
    }
    if (!aside->second.is_own) {
      aside_.erase(aside);
      aside = aside_.end();
    } else if (!trial_) {
      if (!may_begin()) return Turn::kPlain;
      trial_.emplace(Trial{.sizes = sizes, .was_aside = true});
    }
  }
  const Turn otherwise = aside == aside_.end() ? Turn::kServed : Turn::kPlain;
  if (!trial_) {
    if (left_ > 0) {
      --left_;
      return otherwise;
    }
    if (settled_.contains(sizes) || settled_.size() >= kSettledMax) {
      if (quiet_ >= kQuietMax) settled_.clear();
      quiet_ = std::min(quiet_ * 2, kQuietMax);
      left_ = quiet_;
      return otherwise;
    }
    if (!may_begin()) {
      left_ = before_;
      return otherwise;
    }
    trial_.emplace(Trial{.sizes = sizes, .was_aside = false});
    left_ = 0;
  }
  if (trial_->calls > kCallsMax) {
    if (const auto known = aside_.find(trial_->sizes); known != aside_.end()) known->second.left = known->second.calls;
    trial_.reset();
    left_ = quiet_;
    return otherwise;
  }
  if (trial_->sizes != sizes) {
    ++trial_->calls;
    return otherwise;
  }
  return trial_->Next();
}

void Trials::Settle(bool stands_aside) {
  const Trial& trial = *trial_;
  settled_.insert(trial.sizes);
  if (!stands_aside) {
    aside_.erase(trial.sizes);
  } else if (const auto known = aside_.find(trial.sizes); known != aside_.end()) {
    known->second.calls = std::min(known->second.calls * 4, kQuietMax);
    known->second.left = known->second.calls;
  } else {
    Keep(trial.sizes, Aside{.left = kAsideMin, .calls = kAsideMin, .is_own = true});
  }
  trial_.reset();
  left_ = quiet_ = before_;
}

std::optional<Trials::Verdict> Trials::Note(Turn turn, uint64_t sizes, std::chrono::nanoseconds took) {
  // Another thread's call may have had the same turn.
  if (!trial_ || trial_->sizes != sizes || trial_->step % 2 == 0) return std::nullopt;
  const bool is_plain = turn == Turn::kTimedPlain;
  if (trial_->IsPlain() != is_plain) return std::nullopt;
  (is_plain ? trial_->plain : trial_->served)[trial_->rounds] = took.count();
  if (++trial_->step < 4) return std::nullopt;
  const std::optional<bool> stands_aside = trial_->Judge();
  if (!stands_aside) return std::nullopt;
  const bool was_aside = trial_->was_aside;
  const Verdict verdict{.sizes = sizes,
                        .stands_aside = *stands_aside,
                        .served = Median(trial_->served, trial_->rounds),
                        .plain = Median(trial_->plain, trial_->rounds)};
  Settle(*stands_aside);
  return was_aside == *stands_aside ? std::nullopt : std::optional(verdict);
}

void Trials::StandAside(uint64_t sizes, uint32_t calls) {
  Keep(sizes, Aside{.left = calls, .calls = calls, .is_own = false});
}

/// Of too many sizes another is served again, and tried when its turn comes.
void Trials::Keep(uint64_t sizes, Aside aside) {
  if (aside_.size() >= kAsideSizesMax && !aside_.contains(sizes)) aside_.erase(aside_.begin());
  aside_[sizes] = aside;
}

void Trials::Restart() {
  settled_.clear();
  trial_.reset();
  left_ = quiet_ = before_;
  for (auto& [sizes, aside] : aside_) {
    if (aside.is_own) aside.left = std::min(aside.left, before_);
  }
}

}  // namespace ingot::client
