// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "base/bytes.h"

namespace ingot::fuzz {

/// Changes inputs as damage and malice would; one seed of the generator, one sequence.
class Mutator {
 public:
  Mutator(const std::vector<Buffer>& seeds, uint64_t seed) : seeds_(seeds), random_(seed) {}

  /// `input` after one change, often, or several; at most kBytesMax long.
  Buffer Mutate(Buffer input) {
    do {
      Change(input);
    } while (Below(2) == 0);
    if (input.size() > kBytesMax) input.resize(kBytesMax);
    return input;
  }

 private:
  static constexpr size_t kBytesMax = 1 << 20;
  static constexpr size_t kChunkMax = 64;

  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void Change(Buffer& input) {
    switch (Below(7)) {
      case 0: return FlipBit(input);
      case 1: return WriteInteger(input);
      case 2: return WriteDigits(input);
      case 3: return RepeatChunk(input);
      case 4: return Splice(input);
      case 5: return RemoveChunk(input);
      default:
        if (Below(4) == 0) return input.resize(Below(input.size()));
        if (!input.empty()) input[Below(input.size())] = static_cast<uint8_t>(random_());
    }
  }

  void FlipBit(Buffer& input) {
    if (!input.empty()) input[Below(input.size())] ^= static_cast<uint8_t>(1 << Below(8));
  }

  /// A number at which widths and signs end, over 1 to 8 bytes, aligned as fields are.
  void WriteInteger(Buffer& input) {
    constexpr uint64_t kNumbers[] = {0,
                                     1,
                                     2,
                                     0x7F,
                                     0x80,
                                     0xFF,
                                     0x7FFF,
                                     0x8000,
                                     0xFFFF,
                                     0x7FFFFFFF,
                                     0x80000000,
                                     0xFFFFFFFF,
                                     0x7FFFFFFFFFFFFFFF,
                                     0x8000000000000000,
                                     0xFFFFFFFFFFFFFFFF};
    const uint64_t number = kNumbers[Below(std::size(kNumbers))] + Below(3) - 1;
    const size_t width = size_t{1} << Below(4);
    if (input.size() < width) return;
    const size_t at = Below(input.size() / width) * width;
    std::memcpy(input.data() + at, &number, width);
  }

  /// The same for text: a run of digits becomes another number.
  void WriteDigits(Buffer& input) {
    constexpr std::string_view kNumbers[] = {"0",
                                             "1",
                                             "-1",
                                             "64",
                                             "1023",
                                             "1024",
                                             "65535",
                                             "4294967295",
                                             "9223372036854775807",
                                             "9223372036854775808",
                                             "-9223372036854775808",
                                             "1e308",
                                             "nan",
                                             "-inf",
                                             "s0"};
    const auto is_digit = [](uint8_t c) { return c >= '0' && c <= '9'; };
    auto first = std::find_if(input.begin() + Offset(input), input.end(), is_digit);
    const auto last = std::find_if_not(first, input.end(), is_digit);
    const Bytes number = AsBytes(kNumbers[Below(std::size(kNumbers))]);
    first = input.erase(first, last);
    input.insert(first, number.begin(), number.end());
  }

  void RepeatChunk(Buffer& input) {
    const Buffer chunk = ChunkOf(input);
    const ptrdiff_t at = Offset(input);
    for (size_t times = 1 + Below(8); times > 0; --times) {
      input.insert(input.begin() + at, chunk.begin(), chunk.end());
    }
  }

  /// A piece of some seed takes the place of, or stands before, what is here.
  void Splice(Buffer& input) {
    const Buffer chunk = ChunkOf(seeds_[Below(seeds_.size())]);
    const ptrdiff_t at = Offset(input);
    if (Below(2) == 0) {
      const size_t end = std::min(input.size(), static_cast<size_t>(at) + chunk.size());
      input.erase(input.begin() + at, input.begin() + static_cast<ptrdiff_t>(end));
    }
    input.insert(input.begin() + at, chunk.begin(), chunk.end());
  }

  void RemoveChunk(Buffer& input) {
    const size_t at = Below(input.size());
    const size_t end = std::min(input.size(), at + 1 + Below(kChunkMax));
    input.erase(input.begin() + static_cast<ptrdiff_t>(at), input.begin() + static_cast<ptrdiff_t>(end));
  }

  Buffer ChunkOf(const Buffer& from) {
    const size_t at = Below(from.size());
    const size_t end = std::min(from.size(), at + 1 + Below(kChunkMax));
    return Buffer(from.begin() + static_cast<ptrdiff_t>(at), from.begin() + static_cast<ptrdiff_t>(end));
  }

  ptrdiff_t Offset(const Buffer& input) { return static_cast<ptrdiff_t>(Below(input.size() + 1)); }

  const std::vector<Buffer>& seeds_;
  std::mt19937_64 random_;
};

}  // namespace ingot::fuzz
