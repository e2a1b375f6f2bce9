// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>

// Included by every generated header, so that all verifiers agree. FlatBuffers checks that a
// vector lies in the buffer and where its size stands, but not that elements wider than the size
// are aligned: a hostile buffer could make every reader load integers from odd addresses.

namespace ingot::proto {

template <typename T>
bool VerifyAligned(const flatbuffers::Verifier& verifier, const flatbuffers::Vector<T>* vector) {
  if (vector == nullptr) return true;
  if (!verifier.VerifyVectorOrString(reinterpret_cast<const uint8_t*>(vector), sizeof(T))) return false;
  return vector->size() == 0 || reinterpret_cast<uintptr_t>(vector->Data()) % alignof(T) == 0;
}

}  // namespace ingot::proto

template <>
inline bool flatbuffers::Verifier::VerifyVector<int64_t>(const Vector<int64_t>* vector) const {
  return ingot::proto::VerifyAligned(*this, vector);
}
template <>
inline bool flatbuffers::Verifier::VerifyVector<uint64_t>(const Vector<uint64_t>* vector) const {
  return ingot::proto::VerifyAligned(*this, vector);
}
template <>
inline bool flatbuffers::Verifier::VerifyVector<double>(const Vector<double>* vector) const {
  return ingot::proto::VerifyAligned(*this, vector);
}
