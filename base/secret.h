// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace ingot {

/// A password, a token or a private key as text. It cannot be printed, logged, compared or turned into JSON: whoever
/// sends it says Reveal(), so that a search for that word finds every place where one goes. Its memory is wiped when
/// the last copy goes.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text);

  bool empty() const { return text_ == nullptr; }
  /// Empty where there is none.
  const std::string& Reveal() const;
  /// `text` with *** wherever this stands in it: others repeat what they were told.
  std::string Masked(std::string text) const;

  bool operator==(const Secret&) const = delete;

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace ingot
