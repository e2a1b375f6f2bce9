// SPDX-License-Identifier: Apache-2.0
#include "kernels/arena_search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace ingot::kernels {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

// Time is cut into sections: the largest sets of buffers that are alive at one step, in order of time. All that
// constrains a layout is which sections a buffer crosses.
struct Block {
  int64_t bytes = 0;
  uint32_t begin = 0;  // sections [begin, end)
  uint32_t end = 0;
  uint32_t lifetime = 0;
  uint32_t alike = 0;  // the first block with the same sections and bytes
};

struct Timeline {
  std::vector<Block> blocks;  // by begin
  uint32_t sections = 0;
};

Timeline CutTime(std::span<const Lifetime> lifetimes, int64_t alignment) {
  struct Event {
    uint64_t step = 0;
    bool is_first = false;  // ends come before beginnings of one step: those two buffers do not meet
    uint32_t lifetime = 0;
  };
  std::vector<Event> events;
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].bytes <= 0) continue;
    events.push_back({lifetimes[i].first, true, i});
    events.push_back({uint64_t{std::max(lifetimes[i].first, lifetimes[i].last)} + 1, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.step, a.is_first, a.lifetime) < std::tie(b.step, b.is_first, b.lifetime);
  });
  Timeline timeline;
  std::vector<uint32_t> begins(lifetimes.size());
  bool has_grown = false;  // the section under way, since the last buffer that ended
  for (const Event& event : events) {
    if (event.is_first) {
      begins[event.lifetime] = timeline.sections;
      has_grown = true;
      continue;
    }
    if (has_grown) ++timeline.sections;
    has_grown = false;
    const int64_t bytes = (lifetimes[event.lifetime].bytes + alignment - 1) / alignment * alignment;
    timeline.blocks.push_back({bytes, begins[event.lifetime], timeline.sections, event.lifetime});
  }
  std::vector<Block>& blocks = timeline.blocks;
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return std::tie(a.begin, a.end, a.bytes, a.lifetime) < std::tie(b.begin, b.end, b.bytes, b.lifetime);
  });
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    const bool is_alike = i > 0 && std::tie(blocks[i - 1].begin, blocks[i - 1].end, blocks[i - 1].bytes) ==
                                       std::tie(blocks[i].begin, blocks[i].end, blocks[i].bytes);
    blocks[i].alike = is_alike ? blocks[i - 1].alike : i;
  }
  return timeline;
}

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// 1 1 2 1 1 2 4 ...: how long the n-th try (n >= 1) should be when nothing is known of how long one takes.
uint64_t Luby(uint64_t n) {
  uint64_t length = 1;
  while (2 * length - 1 < n) length *= 2;
  return 2 * length - 1 == n ? length : Luby(n - (length - 1));
}

enum class Answer { kYes, kNo, kStopped };

// Looks for a layout of at most `capacity` bytes. Blocks are piled up from below. Each section has a floor under which
// nothing more will be placed, each block a reach, the lowest offset that it still can have: the highest floor of its
// sections. A block is placed at its reach, or all layouts with it there are done and it lies higher.
// Only piles are looked at in which each block rests on another one and none fits into a hole below it; every layout
// can be made into such a one by letting blocks fall, so none is missed.
class Pile {
 public:
  Pile(const Timeline& timeline, uint64_t steps_max)
      : blocks_(timeline.blocks),
        loads_(timeline.sections),
        floors_(timeline.sections),
        tops_(timeline.sections),
        scratch_(timeline.sections),
        lows_(blocks_.size()),
        reaches_(blocks_.size()),
        offsets_(blocks_.size(), kNowhere),
        blames_(blocks_.size()),
        ranks_(blocks_.size()),
        order_(blocks_.size()),
        failed_(std::bit_ceil(std::min(steps_max, kFailedStatesMax))) {
    for (const Block& block : blocks_) {
      for (uint32_t s = block.begin; s < block.end; ++s) loads_[s] += block.bytes;
    }
    std::iota(order_.begin(), order_.end(), 0u);
    peaks_.reserve(blocks_.size());
    for (const Block& block : blocks_) {
      peaks_.push_back(*std::max_element(loads_.begin() + block.begin, loads_.begin() + block.end));
    }
  }

  uint64_t steps() const { return steps_; }
  int64_t offset(uint32_t block) const { return offsets_[block]; }

  // kNo: there is no such layout. Starts again with other preferences now and then, and with those blocks preferred
  // that were in the way; what failed before is remembered.
  Answer Fit(int64_t capacity, uint64_t steps_max) {
    capacity_ = capacity;
    const uint64_t end = steps_ + steps_max;
    Answer answer = Answer::kStopped;
    for (uint64_t round = 0; answer == Answer::kStopped && steps_ < end; ++round, ++tries_) {
      Rank(tries_);
      steps_end_ = std::min(end, steps_ + kTrySteps * Luby(round / kPreferences + 1));
      std::fill(offsets_.begin(), offsets_.end(), kNowhere);
      answer = Solve(order_, 0, static_cast<uint32_t>(floors_.size()));
      for (uint64_t& blame : blames_) blame -= blame / 8;
    }
    if (answer == Answer::kYes) {
      // The next search begins on empty ground.
      Undo({0, 0, 0});
      for (const Block& block : blocks_) {
        for (uint32_t s = block.begin; s < block.end; ++s) loads_[s] += block.bytes;
      }
    }
    return answer;
  }

 private:
  static constexpr int64_t kNowhere = -1;
  static constexpr uint64_t kTrySteps = 1000;
  static constexpr uint64_t kFailedStatesMax = uint64_t{1} << 20;
  static constexpr uint64_t kPreferences = 3;
  static constexpr uint64_t kBlame = 256;

  struct Change {
    uint32_t at = 0;
    int64_t was = 0;
  };
  struct Marks {
    size_t floors = 0, tops = 0, lows = 0;
  };
  // Blocks of rest[from..to) share no section with the others.
  struct Part {
    size_t from = 0, to = 0;
    uint32_t begin = 0, end = 0;
    int64_t slack = 0;
  };

  int64_t Slack(uint32_t section) const { return capacity_ - floors_[section] - loads_[section]; }
  Marks Here() const { return {floor_changes_.size(), top_changes_.size(), low_changes_.size()}; }

  static void Revert(std::vector<Change>& changes, size_t mark, std::vector<int64_t>& values) {
    while (changes.size() > mark) {
      values[changes.back().at] = changes.back().was;
      changes.pop_back();
    }
  }
  void Undo(Marks marks) {
    Revert(floor_changes_, marks.floors, floors_);
    Revert(top_changes_, marks.tops, tops_);
    Revert(low_changes_, marks.lows, lows_);
  }

  // Which of several candidates comes first. Large ones that live long do, the busiest sections' before others in one
  // of three orders; the more a block was in the way, and in later tries chance, change that. All in integers, which
  // are the same everywhere.
  void Rank(uint64_t tries) {
    const uint64_t blame_max = std::max<uint64_t>(1, *std::max_element(blames_.begin(), blames_.end()));
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      uint64_t rank = std::max<uint64_t>(
          1, static_cast<uint64_t>(static_cast<double>(block.bytes) / static_cast<double>(capacity_) * (1 << 16)));
      if (tries % kPreferences != 2) rank *= block.end - block.begin;
      if (tries >= kPreferences) rank = rank * (256 + Mix(tries * blocks_.size() + i) % 256) / 256;
      rank = rank * (256 + 2560 * blames_[i] / blame_max) / 256;
      if (tries % kPreferences == 0) {
        rank += static_cast<uint64_t>(static_cast<double>(peaks_[i]) / static_cast<double>(capacity_) * (1 << 12))
                << 40;
      }
      ranks_[i] = rank;
    }
  }

  // Raises floors to where the lowest block can lie. False: no layout, or none that others are not as good as.
  bool Propagate(std::span<const uint32_t> blocks, uint32_t begin, uint32_t end) {
    std::fill(scratch_.begin() + begin, scratch_.begin() + end, kFar);
    for (const uint32_t i : blocks) {
      const Block& block = blocks_[i];
      int64_t reach = lows_[i];
      for (uint32_t s = block.begin; s < block.end; ++s) reach = std::max(reach, floors_[s]);
      reaches_[i] = reach;
      if (reach > capacity_ - block.bytes) {
        blames_[i] += kBlame;
        return false;
      }
      for (uint32_t s = block.begin; s < block.end; ++s) scratch_[s] = std::min(scratch_[s], reach);
    }
    bool has_risen = false;
    for (uint32_t s = begin; s < end; ++s) {
      if (scratch_[s] == kFar || scratch_[s] <= floors_[s]) continue;
      if (scratch_[s] > capacity_ - loads_[s]) {
        for (const uint32_t i : blocks) {
          if (blocks_[i].begin <= s && s < blocks_[i].end) blames_[i] += kBlame;
        }
        return false;
      }
      SetFloor(s, scratch_[s]);
      has_risen = true;
    }
    if (!has_risen) return true;
    // A block that fits under what is given up lies there in a layout that is no worse.
    return std::none_of(blocks.begin(), blocks.end(), [&](uint32_t i) {
      const Block& block = blocks_[i];
      int64_t top = 0;
      int64_t floor = kFar;
      for (uint32_t s = block.begin; s < block.end; ++s) {
        top = std::max(top, tops_[s]);
        floor = std::min(floor, floors_[s]);
      }
      return floor - top >= block.bytes;
    });
  }

  // As Propagate left them, before blocks were placed that are taken again.
  void FindReaches(std::span<const uint32_t> blocks) {
    for (const uint32_t i : blocks) {
      const Block& block = blocks_[i];
      reaches_[i] = std::max(lows_[i], *std::max_element(floors_.begin() + block.begin, floors_.begin() + block.end));
    }
  }

  void SetFloor(uint32_t section, int64_t floor) {
    floor_changes_.push_back({section, floors_[section]});
    floors_[section] = floor;
  }

  // What the answer for `blocks` depends on, after Propagate: their reaches, and the holes under them.
  uint64_t StateOf(std::span<const uint32_t> blocks, uint32_t begin, uint32_t end) const {
    uint64_t state = Mix(static_cast<uint64_t>(capacity_));
    for (const uint32_t i : blocks) state += Mix(static_cast<uint64_t>(reaches_[i]) * kArenaSearchBuffersMax + i + 1);
    for (uint32_t s = begin; s < end; ++s) {
      if (scratch_[s] == kFar || tops_[s] == floors_[s]) continue;
      state += Mix(~(static_cast<uint64_t>(tops_[s]) * kArenaSearchBuffersMax + s));
    }
    return state;
  }

  // The block to place next: in the valley at the foot of the tightest section, where the fewest can lie. Nothing
  // that is not placed yet can come under a block that lies in a valley.
  uint32_t Choose(std::span<const uint32_t> blocks, uint32_t begin, uint32_t end) {
    uint32_t at = end;
    for (uint32_t s = begin; s < end; ++s) {
      if (loads_[s] == 0) continue;
      if (at == end || std::pair(Slack(s), -loads_[s]) < std::pair(Slack(at), -loads_[at])) at = s;
    }
    uint32_t left = at;
    uint32_t right = at + 1;
    int64_t left_wall = kFar;
    int64_t right_wall = kFar;
    while (true) {
      while (left > begin && floors_[left - 1] == floors_[at]) --left;
      while (right < end && floors_[right] == floors_[at]) ++right;
      left_wall = left > begin ? floors_[left - 1] : kFar;
      right_wall = right < end ? floors_[right] : kFar;
      if (floors_[at] < std::min(left_wall, right_wall)) break;
      at = left_wall <= right_wall ? left - 1 : right;
      left = at;
      right = at + 1;
    }
    const int64_t level = floors_[at];
    std::fill(scratch_.begin() + left, scratch_.begin() + right, 0);
    for (const uint32_t i : blocks) {
      if (reaches_[i] != level) continue;
      for (uint32_t s = std::max(left, blocks_[i].begin); s < std::min(right, blocks_[i].end); ++s) ++scratch_[s];
    }
    for (uint32_t s = left; s < right; ++s) {
      if (std::pair(scratch_[s], Slack(s)) < std::pair(scratch_[at], Slack(at))) at = s;
    }
    uint32_t best = 0;
    uint64_t best_rank = 0;
    for (const uint32_t i : blocks) {
      const Block& block = blocks_[i];
      if (reaches_[i] != level || block.begin > at || block.end <= at) continue;
      uint64_t rank = ranks_[i];
      // Flush with a wall leaves no step to fill.
      if (block.begin == left && level + block.bytes == left_wall) rank += rank / 2;
      if (block.end == right && level + block.bytes == right_wall) rank += rank / 2;
      if (rank > best_rank) {
        best = i;
        best_rank = rank;
      }
    }
    return best;
  }

  // Pushes the parts of `blocks` onto parts_, the tightest first: it is the likeliest to fail.
  void Split(std::span<const uint32_t> blocks) {
    const auto first = static_cast<std::ptrdiff_t>(parts_.size());
    for (size_t i = 0; i < blocks.size();) {
      Part part{i, i, blocks_[blocks[i]].begin, blocks_[blocks[i]].end, kFar};
      for (; part.to < blocks.size() && blocks_[blocks[part.to]].begin < part.end; ++part.to) {
        part.end = std::max(part.end, blocks_[blocks[part.to]].end);
      }
      for (uint32_t s = part.begin; s < part.end; ++s) part.slack = std::min(part.slack, Slack(s));
      i = part.to;
      parts_.push_back(part);
    }
    std::stable_sort(parts_.begin() + first, parts_.end(),
                     [](const Part& a, const Part& b) { return a.slack < b.slack; });
  }

  void Put(uint32_t i) {
    const Block& block = blocks_[i];
    for (uint32_t s = block.begin; s < block.end; ++s) {
      top_changes_.push_back({s, tops_[s]});
      tops_[s] = reaches_[i] + block.bytes;
      SetFloor(s, tops_[s]);
      loads_[s] -= block.bytes;
    }
    offsets_[i] = reaches_[i];
  }

  void Take(uint32_t i) {
    if (offsets_[i] == kNowhere) return;
    for (uint32_t s = blocks_[i].begin; s < blocks_[i].end; ++s) loads_[s] += blocks_[i].bytes;
    offsets_[i] = kNowhere;
  }

  // From here on `i` and those like it lie higher than `level`, so on another block. False: there is none.
  bool Lift(std::span<const uint32_t> blocks, uint32_t i, int64_t level) {
    int64_t low = kFar;
    for (const uint32_t k : blocks) {
      const bool is_apart = blocks_[k].begin >= blocks_[i].end || blocks_[k].end <= blocks_[i].begin;
      if (is_apart || blocks_[k].alike == blocks_[i].alike) continue;
      low = std::min(low, reaches_[k] + blocks_[k].bytes);
    }
    if (low == kFar) return false;
    for (const uint32_t k : blocks) {
      if (blocks_[k].alike != blocks_[i].alike || reaches_[k] != level || lows_[k] >= low) continue;
      low_changes_.push_back({k, lows_[k]});
      lows_[k] = low;
    }
    return true;
  }

  // Places `blocks`, which cross only sections [begin, end) and are sorted by `begin`, as they are again afterwards.
  // Everything else is as before unless the answer is kYes.
  Answer Solve(std::span<uint32_t> blocks, uint32_t begin, uint32_t end) {
    if (blocks.empty()) return Answer::kYes;
    const Marks start = Here();
    uint64_t start_state = 0;
    Answer answer = Answer::kNo;
    while (true) {
      answer = Answer::kStopped;
      if (steps_ == steps_end_) break;
      ++steps_;
      answer = Answer::kNo;
      if (!Propagate(blocks, begin, end)) break;
      const uint64_t state = StateOf(blocks, begin, end);
      // Two states of one number would cost a layout that is missed, not a wrong one.
      if (failed_[state % failed_.size()] == state) break;
      if (start_state == 0) start_state = state;
      const Marks before = Here();
      const uint32_t i = Choose(blocks, begin, end);
      const auto place = std::find(blocks.begin(), blocks.end(), i);
      const int64_t level = reaches_[i];
      Put(i);
      std::rotate(place, place + 1, blocks.end());
      const std::span<uint32_t> rest = blocks.first(blocks.size() - 1);
      const size_t parts_begin = parts_.size();
      Split(rest);
      const size_t parts_end = parts_.size();
      answer = Answer::kYes;
      for (size_t k = parts_begin; k < parts_end && answer == Answer::kYes; ++k) {
        const Part part = parts_[k];
        answer = Solve(rest.subspan(part.from, part.to - part.from), part.begin, part.end);
      }
      parts_.resize(parts_begin);
      std::rotate(place, blocks.end() - 1, blocks.end());
      if (answer == Answer::kYes) return answer;
      Undo(before);
      for (const uint32_t k : blocks) Take(k);
      if (answer == Answer::kStopped) break;
      FindReaches(blocks);
      if (!Lift(blocks, i, level)) break;
    }
    if (answer == Answer::kNo && start_state != 0) failed_[start_state % failed_.size()] = start_state;
    Undo(start);
    return answer;
  }

  const std::vector<Block>& blocks_;
  int64_t capacity_ = 0;
  std::vector<int64_t> loads_;  // of each section: bytes that are not placed yet
  std::vector<int64_t> floors_;  // of each section
  std::vector<int64_t> tops_;  // of each section: end of what was placed last
  std::vector<int64_t> scratch_;  // of each section
  std::vector<int64_t> peaks_;  // of each block: the load of its busiest section
  std::vector<int64_t> lows_;  // of each block: it lies no lower
  std::vector<int64_t> reaches_;
  std::vector<int64_t> offsets_;
  std::vector<uint64_t> blames_;  // of each block: how often it had no place
  std::vector<uint64_t> ranks_;
  std::vector<uint32_t> order_;
  std::vector<Part> parts_;
  std::vector<Change> floor_changes_;
  std::vector<Change> top_changes_;
  std::vector<Change> low_changes_;
  std::vector<uint64_t> failed_;  // numbers of states without an answer, each where its number says
  uint64_t steps_ = 0;
  uint64_t steps_end_ = 0;
  uint64_t tries_ = 0;
};

}  // namespace

ArenaSearch ImproveArena(std::span<const Lifetime> lifetimes, ArenaLayout layout_known, uint64_t steps_max,
                         int64_t alignment) {
  ArenaSearch found{std::move(layout_known)};
  ArenaLayout& layout = found.layout;
  found.is_least = layout.bytes == layout.bytes_min && layout.bytes < kArenaBytesMax;
  if (found.is_least || layout.bytes == kArenaBytesMax || steps_max == 0) return found;
  const Timeline timeline = CutTime(lifetimes, alignment);
  if (timeline.blocks.size() > kArenaSearchBuffersMax) return found;

  Pile pile(timeline, steps_max);
  int64_t least = layout.bytes_min;  // no layout is smaller
  const auto fit = [&](int64_t capacity, uint64_t steps) {
    const Answer answer = pile.Fit(capacity, std::min(steps, steps_max - pile.steps()));
    if (answer == Answer::kNo) least = std::max(least, capacity + alignment);
    if (answer != Answer::kYes) return;
    layout.bytes = 0;
    for (uint32_t i = 0; i < timeline.blocks.size(); ++i) {
      const Block& block = timeline.blocks[i];
      layout.offsets[block.lifetime] = pile.offset(i);
      layout.bytes = std::max(layout.bytes, pile.offset(i) + block.bytes);
    }
  };
  // The least first: most often there is such a layout. Then halfway between it and the best one known, as far as that
  // helps; then all of it again with more patience.
  constexpr uint64_t kPatience = 4000;
  for (uint64_t patience = kPatience; least < layout.bytes && pile.steps() < steps_max; patience *= 4) {
    fit(least, patience);
    for (int64_t low = least; layout.bytes - low > std::max(alignment, least / 512) && pile.steps() < steps_max;) {
      const int64_t middle = low + (layout.bytes - low) / 2 / alignment * alignment;
      if (middle <= low) break;
      const int64_t bytes = layout.bytes;
      fit(middle, patience);
      if (layout.bytes == bytes) low = middle;
    }
  }
  found.steps = pile.steps();
  found.is_least = least >= layout.bytes;
  return found;
}

}  // namespace ingot::kernels
