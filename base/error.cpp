// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

namespace ingot {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalid: return "invalid";
    case Code::kNotFound: return "not_found";
    case Code::kCorrupt: return "corrupt";
    case Code::kIncompatible: return "incompatible";
    case Code::kUnsupported: return "unsupported";
    case Code::kExhausted: return "exhausted";
    case Code::kTimeout: return "timeout";
    case Code::kCancelled: return "cancelled";
    case Code::kUnavailable: return "unavailable";
    case Code::kInternal: return "internal";
    case Code::kHalfDone: return "half_done";
    case Code::kDenied: return "denied";
  }
  return "internal";
}

std::string Error::ToText() const { return std::string(CodeName(code_)) + ": " + message_; }

}  // namespace ingot
