// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ingot::daemon::web {

/// The files of the page, as they stand beside this one; made part of the program by assets.cmake.
extern const std::string_view kPageHtml, kPageCss, kPageJs, kLoginHtml, kIconSvg;

}  // namespace ingot::daemon::web
