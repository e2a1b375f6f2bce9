// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "client/native/places/place_access.h"

namespace ingot::client {

/// Whether a field (place_access.h) is compared by content: "len", "keys", "content", "order" (of the
/// members of a set), "bases", "special" (what native code finds in a class under special names),
/// "context" (of a context variable), "grad" (whether a tensor requires grad), "registry" (of an abstract class),
/// "kind" (what the object is), "address", "abstract" (whether a class has abstract parts).
bool IsContentField(std::string_view name);

/// Whether native code alone finds what a class has under the name.
bool IsSpecialName(std::string_view name);

/// Digest of such a field of an object; nothing for a field that leads to an object. Needs the GIL;
/// leaves no Python error set.
std::optional<Digest> ContentOf(PyObject* holder, std::string_view field);

/// A member of an enumeration, which its name tells from the others of its class. Needs the GIL.
bool IsEnumMember(PyObject* value);

/// Of a place that calls fetch whatever it holds then, as long as that is of this kind: a tensor, an integer of
/// which calls make a size, a float, or a tuple of so many tensors. None for anything else.
std::optional<Digest> DigestIfFetched(PyObject* value);
/// What calls may fetch from a place where each finds another: an integer that may be a size, one that may not be but
/// has room to be computed with exactly, a float, a tensor.
enum class Fetched : uint8_t { kSize, kInteger, kFloat, kTensor };
constexpr size_t kFetchedCount = 4;
/// Nothing for what calls may not fetch.
std::optional<Fetched> FetchedAs(PyObject* value);
/// Stands for whatever is of the value's kind where an object is expected, borrowed; null where calls may not fetch
/// it.
PyObject* AnyLike(PyObject* value);
/// Whether one may be in the place of the other, which is AnyLike() something.
bool IsAnyLike(PyObject* any, PyObject* value);

/// Digest of a value as it is compared: atoms by value, functions by name, code and module,
/// classes, modules and functions made in C by name, tensors by metadata, everything else by its
/// class. Places inside it have digests of their own.
Digest DigestOfPlaceValue(const PlaceValue& seen);

/// The same of an object that was found somewhere; null: absent.
Digest DigestOfValue(PyObject* value);

}  // namespace ingot::client
