// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::compiler {

/// One place where a graph uses a value.
struct Use {
  /// Users that are no nodes.
  static constexpr uint32_t kOutputs = ~0u;
  static constexpr uint32_t kWrites = ~0u - 1;

  uint32_t user = kOutputs;  ///< A NodeId, or one of the above.
  /// Which operand of the user: elements of lists count one by one, absent ones too.
  uint32_t operand = 0;

  bool IsNode() const { return user < kWrites; }
  bool operator==(const Use&) const = default;
};

/// For each value of a graph, who uses it. The uses of a value are linked through one flat array, so that a copy is
/// cheap and a change costs as much as what changes, however many uses a value has. Thread-compatible.
class UseLists {
  struct Link {
    uint32_t value = ~0u;  ///< ~0u: an absent operand, or one of no value of the graph
    Use use;
    uint32_t next = ~0u, previous = ~0u;
  };

 public:
  /// The uses of one value, in no order to rely on. Changes of the graph end its iterators.
  class Range {
   public:
    class Iterator {
     public:
      using value_type = Use;
      using difference_type = std::ptrdiff_t;
      Iterator() = default;
      Iterator(const std::vector<Link>* links, uint32_t at) : links_(links), at_(at) {}
      const Use& operator*() const { return (*links_)[at_].use; }
      const Use* operator->() const { return &**this; }
      Iterator& operator++() {
        at_ = (*links_)[at_].next;
        return *this;
      }
      Iterator operator++(int) {
        Iterator before = *this;
        ++*this;
        return before;
      }
      bool operator==(const Iterator& other) const { return at_ == other.at_; }

     private:
      const std::vector<Link>* links_ = nullptr;
      uint32_t at_ = ~0u;
    };

    Range(const std::vector<Link>* links, uint32_t first) : links_(links), first_(first) {}
    Iterator begin() const { return {links_, first_}; }
    Iterator end() const { return {links_, ~0u}; }

   private:
    const std::vector<Link>* links_;
    uint32_t first_;
  };

  void AddValue() { values_.emplace_back(); }
  /// Says that `user` uses these values, in place of what it has used so far. Linear in both.
  void Set(uint32_t user, std::span<const uint32_t> operands);
  /// All that use `from` use `to`, another value, from now on; linear in the uses of `from`.
  void Move(uint32_t from, uint32_t to);

  /// The value that is used there, or ~0u.
  uint32_t at(const Use& use) const;
  uint32_t count(uint32_t value) const { return value < values_.size() ? values_[value].count : 0; }
  Range of(uint32_t value) const { return {&links_, value < values_.size() ? values_[value].first : ~0u}; }

 private:
  struct List {
    uint32_t first = ~0u;
    uint32_t count = 0;
  };
  /// The links of one user, one for each operand.
  struct Operands {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  Operands& OperandsOf(uint32_t user);
  void Insert(uint32_t link, uint32_t value);
  void Remove(uint32_t link);

  std::vector<List> values_;
  std::vector<Operands> nodes_;
  Operands outputs_, writes_;
  std::vector<Link> links_;
};

}  // namespace ingot::compiler
