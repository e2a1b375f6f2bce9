// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace ingot::client {

/// A setting of the process (or of this thread) that PyTorch's operators ask for without any code of Python's.
struct ContextSetting {
  const char* setter;   ///< of at::Context, by which a program sets it
  const char* name;     ///< in a key
  unsigned bits;        ///< as many as its values take
  uint64_t (*now)();    ///< null where no answer depends on it
  const char* without;  ///< why none does
  /// Whether it decides if operators answer at all, or what native code makes of a number; the others decide how the
  /// operators that stay with PyTorch round, which ask for them themselves.
  bool each_call;
};

/// All that at::Context has, and what lies beside it.
std::span<const ContextSetting> ContextSettings();

/// Those that a call asks for each time, all in one; keys have the others.
uint16_t SettingsNow();

}  // namespace ingot::client
