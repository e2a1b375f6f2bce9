// SPDX-License-Identifier: Apache-2.0
#include "proto/message.h"

#include <string>
#include <vector>

namespace ingot::proto {
namespace {

using flatbuffers::TypeTable;

constexpr int kDepthMax = 64;

/// Adds up what is named from a root on. Reads nothing outside of the bytes, whatever they hold; that they are well
/// formed beyond that is the verifier's to say.
class Walk {
 public:
  Walk(Bytes body, uint64_t shares_max)
      : body_(body),
        named_(body.size() * shares_max),
        unpacked_(body.size() * shares_max * kUnpackFactor + kUnpackBesideBytes) {}

  bool Root(const TypeTable& type) {
    uint64_t at = 0;
    return Name(0, sizeof(uint32_t)) && Follow(0, at) && Table(at, type, kDepthMax);
  }

 private:
  bool Fits(uint64_t at, uint64_t size) const { return size <= body_.size() && at <= body_.size() - size; }

  static bool Spend(uint64_t& left, uint64_t bytes) {
    if (bytes > left) return false;
    left -= bytes;
    return true;
  }
  bool Name(uint64_t at, uint64_t size) { return Fits(at, size) && Spend(named_, size); }
  bool Unpack(uint64_t size) { return Spend(unpacked_, size); }

  /// Where the offset at `at`, which fits, leads.
  bool Follow(uint64_t at, uint64_t& to) const {
    to = at + LoadLittle<uint32_t>(body_, at);
    return Fits(to, sizeof(uint32_t));
  }

  /// Bytes in a table, a vector or a struct.
  static uint64_t InlineBytes(unsigned base, const TypeTable* type) {
    switch (base) {
      case flatbuffers::ET_UTYPE:
      case flatbuffers::ET_BOOL:
      case flatbuffers::ET_CHAR:
      case flatbuffers::ET_UCHAR: return 1;
      case flatbuffers::ET_SHORT:
      case flatbuffers::ET_USHORT: return 2;
      case flatbuffers::ET_LONG:
      case flatbuffers::ET_ULONG:
      case flatbuffers::ET_DOUBLE: return 8;
      case flatbuffers::ET_SEQUENCE:
        return type->st == flatbuffers::ST_STRUCT ? static_cast<uint64_t>(type->values[type->num_elems]) : 4;
      default: return 4;
    }
  }
  static bool IsString(unsigned base) { return base == flatbuffers::ET_STRING; }
  static bool IsTable(unsigned base, const TypeTable* type) {
    return base == flatbuffers::ET_SEQUENCE && type->st == flatbuffers::ST_TABLE;
  }
  /// Bytes of one value as a member of an unpacked object or an element of its vector.
  static uint64_t MemberBytes(unsigned base, const TypeTable* type) {
    if (IsString(base)) return sizeof(std::string);
    if (IsTable(base, type)) return sizeof(void*);
    return InlineBytes(base, type);
  }

  bool Text(uint64_t at) {
    const uint64_t size = LoadLittle<uint32_t>(body_, at);
    return Name(at, sizeof(uint32_t) + size + 1) && Unpack(size);
  }

  bool Vector(uint64_t at, unsigned base, const TypeTable* type, int depth) {
    const uint64_t count = LoadLittle<uint32_t>(body_, at);
    const uint64_t step = InlineBytes(base, type);
    if (!Name(at, sizeof(uint32_t) + count * step) || !Unpack(count * MemberBytes(base, type))) return false;
    if (!IsString(base) && !IsTable(base, type)) return true;
    for (uint64_t element = at + sizeof(uint32_t), i = 0; i < count; ++i, element += step) {
      uint64_t to = 0;
      if (!Follow(element, to)) return false;
      if (!(IsString(base) ? Text(to) : Table(to, *type, depth))) return false;
    }
    return true;
  }

  bool Table(uint64_t at, const TypeTable& type, int depth) {
    if (depth == 0 || !Name(at, sizeof(int32_t)) || !Unpack(2 * sizeof(void*))) return false;
    // A negative place wraps around to one that does not fit.
    const uint64_t fields = at - static_cast<uint64_t>(static_cast<int64_t>(LoadLittle<int32_t>(body_, at)));
    if (!Fits(fields, 2 * sizeof(uint16_t))) return false;
    const uint64_t fields_bytes = LoadLittle<uint16_t>(body_, fields);
    if (!Fits(fields, fields_bytes)) return false;
    for (size_t i = 0; i < type.num_elems; ++i) {
      const flatbuffers::TypeCode code = type.type_codes[i];
      const TypeTable* part = code.sequence_ref < 0 ? nullptr : type.type_refs[code.sequence_ref]();
      const bool is_vector = code.is_repeating != 0;
      // What is absent takes its room in the object all the same.
      if (!Unpack(is_vector ? sizeof(std::vector<int>) : MemberBytes(code.base_type, part))) return false;
      const uint64_t slot = 2 * sizeof(uint16_t) + i * sizeof(uint16_t);
      if (slot + sizeof(uint16_t) > fields_bytes) continue;
      const uint64_t offset = LoadLittle<uint16_t>(body_, fields + slot);
      if (offset != 0 && !Field(at + offset, code.base_type, part, is_vector, depth)) return false;
    }
    return true;
  }

  bool Field(uint64_t at, unsigned base, const TypeTable* part, bool is_vector, int depth) {
    const bool is_offset = is_vector || IsString(base) || IsTable(base, part);
    if (!Name(at, is_offset ? sizeof(uint32_t) : InlineBytes(base, part))) return false;
    if (!is_offset) return true;
    uint64_t to = 0;
    if (!Follow(at, to)) return false;
    if (is_vector) return Vector(to, base, part, depth - 1);
    return IsString(base) ? Text(to) : Table(to, *part, depth - 1);
  }

  const Bytes body_;
  uint64_t named_;
  uint64_t unpacked_;
};

}  // namespace

bool IsBounded(Bytes body, const TypeTable& type, uint64_t shares_max) { return Walk(body, shares_max).Root(type); }

}  // namespace ingot::proto
