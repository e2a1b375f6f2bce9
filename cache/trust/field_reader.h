// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace ingot::cache {

/// True when `text` is UTF-8 without control characters: what may be shown on a terminal.
bool IsPlainText(std::string_view text);

/// Takes fields off the front of signed bytes; every call is kCorrupt where they do not suffice.
class FieldReader {
 public:
  explicit FieldReader(Bytes bytes) : left_(bytes) {}

  bool AtEnd() const { return left_.empty(); }
  Result<Bytes> Take(size_t size) {
    if (size > left_.size()) return Error(Code::kCorrupt, "bytes end early");
    const Bytes taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }
  template <std::integral T>
  Status Read(T& out) {
    TRY_ASSIGN(const Bytes taken, Take(sizeof out));
    out = LoadLittle<T>(taken);
    return {};
  }
  template <size_t kSize>
  Status Read(std::array<uint8_t, kSize>& out) {
    TRY_ASSIGN(const Bytes taken, Take(kSize));
    std::copy(taken.begin(), taken.end(), out.begin());
    return {};
  }
  Status Read(Digest& out) {
    TRY(Read(out.low));
    return Read(out.high);
  }
  /// The next `size` bytes, plain text of at most `bytes_max`.
  Result<std::string> Text(size_t size, size_t bytes_max) {
    if (size > bytes_max) return Error(Code::kCorrupt, "a text is over its limit");
    TRY_ASSIGN(const Bytes taken, Take(size));
    if (!IsPlainText(AsText(taken))) return Error(Code::kCorrupt, "a text is not plain UTF-8");
    return std::string(AsText(taken));
  }
  /// A u32 size, then the text.
  Result<std::string> SizedText(size_t bytes_max) {
    uint32_t size = 0;
    TRY(Read(size));
    return Text(size, bytes_max);
  }
  Status End() const {
    if (!left_.empty()) return Error(Code::kCorrupt, "bytes end late");
    return {};
  }

 private:
  Bytes left_;
};

}  // namespace ingot::cache
