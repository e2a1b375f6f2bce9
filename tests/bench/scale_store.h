// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/service_generated.h"

namespace ingot::bench {

/// Entries made from their numbers alone: whoever knows a number knows the key, the record and what it names.
///
/// One entry in fifty is of one function; the others are of functions of about 200 entries. Entries of a function
/// differ in one item of one component. Two entries name one artifact, some a hundred.
struct Population {
  uint64_t entries = 1'000'000;
  uint64_t artifacts = 20'000;

  proto::EntryKeyT KeyOf(uint64_t number) const;
  /// A key of the same function that is not stored.
  proto::EntryKeyT AbsentKeyOf(uint64_t number) const;
  std::string FunctionOf(uint64_t number) const;
  /// The bytes of an artifact that entries name: 2 to 256 KiB, half of it random.
  Buffer ArtifactOf(uint64_t number) const;
};

/// Makes the store below `store_dir` hold the population, unless it does. Prints how long that took.
Status FillStore(const std::string& store_dir, const Population& population);

}  // namespace ingot::bench
