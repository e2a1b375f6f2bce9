// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ingot::client {

/// The sizes for which a variant's code has given what eager gave (docs/agreed.md): for each symbol of its artifact,
/// the kinds of values that it had in calls that were compared.
///
/// Any thread may ask while another adds.
class AgreedSizes {
 public:
  enum Kind : uint8_t { kEmpty, kOne, kRagged, kTile, kLarge };
  static constexpr int64_t kTileOf = 16;
  static constexpr int64_t kLargeFrom = 1024;

  explicit AgreedSizes(size_t symbol_count) : masks_(symbol_count + 1) {}

  static Kind KindOf(int64_t size) {
    if (size <= 1) return size <= 0 ? kEmpty : kOne;
    if (size >= kLargeFrom) return kLarge;
    return size % kTileOf == 0 ? kTile : kRagged;
  }
  static const char* NameOf(Kind kind) {
    constexpr const char* kNames[] = {"empty", "one", "ragged", "tile", "large"};
    return kNames[kind];
  }

  void Add(std::span<const int64_t> symbols) {
    masks_.back().store(1, std::memory_order_relaxed);
    for (size_t i = 0; i < symbols.size() && i + 1 < masks_.size(); ++i) {
      masks_[i].fetch_or(static_cast<uint8_t>(1 << KindOf(symbols[i])), std::memory_order_relaxed);
    }
  }
  void Merge(const AgreedSizes& other) {
    for (size_t i = 0; i < masks_.size() && i < other.masks_.size(); ++i) {
      masks_[i].fetch_or(other.masks_[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
  }
  /// Whether each symbol has had a value of such a kind.
  bool Hold(std::span<const int64_t> symbols) const {
    if (masks_.back().load(std::memory_order_relaxed) == 0) return false;
    for (size_t i = 0; i < symbols.size() && i + 1 < masks_.size(); ++i) {
      if ((masks_[i].load(std::memory_order_relaxed) & (1 << KindOf(symbols[i]))) == 0) return false;
    }
    return true;
  }

  /// Calls of other sizes are eager's, and are compared.
  void set_awaited(bool is_awaited) { is_awaited_.store(is_awaited, std::memory_order_relaxed); }
  bool LetsPass(const int64_t* symbols, size_t count) const {
    return !is_awaited_.load(std::memory_order_relaxed) || Hold({symbols, count});
  }

 private:
  std::vector<std::atomic<uint8_t>>
      masks_;  ///< a bit for each kind; behind those of symbols: whether anything was added
  std::atomic<bool> is_awaited_ = false;
};

}  // namespace ingot::client
