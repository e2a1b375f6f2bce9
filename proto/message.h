// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <flatbuffers/flatbuffers.h>

#include "base/bytes.h"

namespace ingot::proto {

/// The bytes of one message; `T` is the table, `object` its unpacked form.
template <typename T, typename Object>
Buffer PackMessage(const Object& object) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(T::Pack(builder, &object));
  return Buffer(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

/// The table in `body`, or nullptr when the bytes do not verify. A view into `body`.
template <typename T>
const T* ReadMessage(Bytes body) {
  // FlatBuffers reads scalars in place, so the root offset alone must fit before verifying.
  if (body.size() < sizeof(flatbuffers::uoffset_t)) return nullptr;
  flatbuffers::Verifier verifier(body.data(), body.size(), 64, 10'000'000);
  if (!verifier.VerifyBuffer<T>(nullptr)) return nullptr;
  return flatbuffers::GetRoot<T>(body.data());
}

}  // namespace ingot::proto
