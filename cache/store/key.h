// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace ingot::cache {

/// One named part of a component, e.g. `code mymodel.Block.forward`; `text` shows the value.
struct Item {
  std::string name;
  Digest digest;
  std::string text;
};

/// One named component of a key: `function`, `module_state`, `inputs`, `gears`, `ranks`,
/// `config`, `environment`, `target`; or of a graph key: `graph`, `guards`, `gear`, `rank`,
/// `target`, `compiler`.
struct Component {
  std::string name;
  std::vector<Item> items;
  Digest DigestOfItems() const;  ///< Order matters.
};

/// A key is its list of named components, all stored: every miss can be explained by name.
struct Key {
  std::vector<Component> components;
  /// Component order does not matter; names must be unique.
  Digest ToDigest() const;
  const Component* Find(std::string_view name) const;
};

/// Canonical bytes (docs/format/key.md) and back. kCorrupt on any damage.
Buffer EncodeKey(const Key& key);
Result<Key> DecodeKey(Bytes bytes);

/// The first thing in which two keys differ.
struct Difference {
  std::string component;  ///< "module_state"
  std::string item;       ///< "model.layers.3.act_fn"
  std::string stored;     ///< "SiLU"; empty when absent there
  std::string asked;      ///< "GELU"
  /// `module_state model.layers.3.act_fn: SiLU -> GELU`, `target feature avx512_bf16 missing`
  std::string ToText() const;
};
/// Every differing item, those of one component together, in the order that people want to hear
/// of them; at most `count_max`. Empty when the keys are equal.
std::vector<Difference> Differences(const Key& stored, const Key& asked, size_t count_max);
/// nullopt when the keys are equal.
std::optional<Difference> FirstDifference(const Key& stored, const Key& asked);
/// Number of differing components and items; smaller is nearer.
size_t Distance(const Key& a, const Key& b);

}  // namespace ingot::cache
