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

/// The table in `body`, or nullptr when the bytes do not verify or do not begin at a multiple of
/// 8, as owned ones always do. A view into `body`.
template <typename T>
const T* ReadMessage(Bytes body) {
  // The root offset is read before anything is verified.
  if (!IsAligned(body) || body.size() < sizeof(flatbuffers::uoffset_t)) return nullptr;
  flatbuffers::Verifier verifier(body.data(), body.size(), 64, 10'000'000);
  if (!verifier.VerifyBuffer<T>(nullptr)) return nullptr;
  return flatbuffers::GetRoot<T>(body.data());
}

}  // namespace ingot::proto
