// SPDX-License-Identifier: Apache-2.0
#pragma once

// Macros that look at what options are given name the functions themselves.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/result.h"

namespace ingot::cache {

/// libcurl, loaded when something is asked of a server: it brings two dozen libraries, which would be most of the start
/// of a daemon that asks none.
struct Curl {
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_global_init) global_init;
  decltype(&curl_multi_add_handle) multi_add_handle;
  decltype(&curl_multi_cleanup) multi_cleanup;
  decltype(&curl_multi_info_read) multi_info_read;
  decltype(&curl_multi_init) multi_init;
  decltype(&curl_multi_perform) multi_perform;
  decltype(&curl_multi_poll) multi_poll;
  decltype(&curl_multi_remove_handle) multi_remove_handle;
  decltype(&curl_multi_setopt) multi_setopt;
  decltype(&curl_multi_strerror) multi_strerror;
  decltype(&curl_multi_wakeup) multi_wakeup;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;

  /// The library of this process, ready for use; it stays. kUnavailable: it is not installed, or does not start, in
  /// words that say what to install.
  static Result<const Curl*> Load();
  /// As Load, from a file of this name, each time.
  static Result<Curl> Open(const char* file);
};

}  // namespace ingot::cache
