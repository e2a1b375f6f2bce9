// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <cstring>

namespace ingot {
namespace {

void Wipe(std::string& text) { ::explicit_bzero(text.data(), text.capacity()); }

}  // namespace

Secret::Secret(std::string text) {
  if (!text.empty()) {
    text_ = std::shared_ptr<const std::string>(new std::string(text), [](const std::string* held) {
      const std::unique_ptr<std::string> owned(const_cast<std::string*>(held));
      Wipe(*owned);
    });
  }
  Wipe(text);
}

const std::string& Secret::Reveal() const {
  static const std::string none;
  return empty() ? none : *text_;
}

std::string Secret::Masked(std::string text) const {
  constexpr const char* kMask = "***";
  for (size_t at = 0; !empty() && (at = text.find(*text_, at)) != std::string::npos; at += std::strlen(kMask)) {
    text.replace(at, text_->size(), kMask);
  }
  return text;
}

}  // namespace ingot
