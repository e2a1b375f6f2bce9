// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ingot::proto {

/// One line of a dependency record (service.fbs `Dependency`) for people, the same in
/// `f.soundness()` and `ingot inspect`:
/// `proved: code net.Net.forward is unchanged`, `proved: environment variable MODE is still fast`,
/// `assumed: self.cache (deque) is unchanged`. Kinds of a later build are said by their name.
std::string DependencyWords(std::string_view kind, std::string_view where, std::string_view text);

/// What a dependency is about: `self.layers.0.scale`, `environment variable MODE`, `the length of self.names`.
std::string DependencySubject(std::string_view kind, std::string_view where);

/// Whether a loading process checks dependencies of this kind; what it cannot check is assumed.
bool IsProved(std::string_view kind);

}  // namespace ingot::proto
