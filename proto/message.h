// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <flatbuffers/flatbuffers.h>

#include "base/bytes.h"
#include "proto/aligned_vectors.h"

namespace ingot::proto {

/// The bytes of one message; `T` is the table, `object` its unpacked form.
template <typename T, typename Object>
Buffer PackMessage(const Object& object) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(T::Pack(builder, &object));
  return Buffer(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

/// Fields are read in place, and checked for their place relative to the first byte.
inline bool IsAligned(Bytes bytes) { return reinterpret_cast<uintptr_t>(bytes.data()) % 8 == 0; }

/// Unpacked, a message takes at most this many times the bytes it names, and a little beside.
inline constexpr uint64_t kUnpackFactor = 16;
inline constexpr uint64_t kUnpackBesideBytes = 64 << 10;

struct MessageRules {
  /// The four characters of a file; nullptr: none.
  const char* identifier = nullptr;
  /// How many times over the message's bytes may be named by it. PackMessage names each byte once; a builder that
  /// shares strings names some more often.
  uint64_t shares_max = 1;
};

/// True when all that `body` names, each time that it is named, adds up to no more than the rules and the factor
/// above allow, and lies in it. Offsets may lead many fields to one place: a small message could so unpack, or be
/// verified, into more than a machine has. Takes time of the order of `body`.
bool IsBounded(Bytes body, const flatbuffers::TypeTable& type, uint64_t shares_max);

/// The table in `body`, or nullptr when the bytes do not verify, are not bounded in what they unpack to, or do not
/// begin at a multiple of 8, as owned ones always do. A view into `body`. The only way to a table of bytes from
/// outside (tools/tidy.py).
template <typename T>
const T* ReadMessage(Bytes body, const MessageRules& rules = {}) {
  // The root offset is read before anything is verified.
  if (!IsAligned(body) || body.size() < sizeof(flatbuffers::uoffset_t)) return nullptr;
  // Before the verifier: it looks at a shared part as often as it is named.
  if (!IsBounded(body, *T::MiniReflectTypeTable(), rules.shares_max)) return nullptr;
  flatbuffers::Verifier verifier(body.data(), body.size(), 64, 10'000'000);
  if (!verifier.VerifyBuffer<T>(rules.identifier)) return nullptr;
  return flatbuffers::GetRoot<T>(body.data());
}

}  // namespace ingot::proto
