// SPDX-License-Identifier: Apache-2.0
#include "cache/net/curl.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ingot::cache {
namespace {

constexpr const char* kFile = "libcurl.so.4";

Error Unusable(const char* file, const std::string& why) {
  return Error(Code::kUnavailable,
               fmt::format("{} cannot be used: {}; install libcurl 7.85 or later (Debian: libcurl4)", file, why));
}

}  // namespace

Result<Curl> Curl::Open(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Unusable(file, dlerror());
  Curl curl{};
  const char* missing = nullptr;
  const auto find = [&]<typename Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_reset, "curl_easy_reset");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.global_init, "curl_global_init");
  find(curl.multi_add_handle, "curl_multi_add_handle");
  find(curl.multi_cleanup, "curl_multi_cleanup");
  find(curl.multi_info_read, "curl_multi_info_read");
  find(curl.multi_init, "curl_multi_init");
  find(curl.multi_perform, "curl_multi_perform");
  find(curl.multi_poll, "curl_multi_poll");
  find(curl.multi_remove_handle, "curl_multi_remove_handle");
  find(curl.multi_setopt, "curl_multi_setopt");
  find(curl.multi_strerror, "curl_multi_strerror");
  find(curl.multi_wakeup, "curl_multi_wakeup");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  if (missing != nullptr) return Unusable(file, fmt::format("it has no {}", missing));
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return Unusable(file, "it does not start");
  return curl;
}

Result<const Curl*> Curl::Load() {
  static const Result<Curl>* const loaded = new Result<Curl>(Open(kFile));  // Threads use it until the process ends.
  if (!*loaded) return loaded->error();
  return &loaded->value();
}

}  // namespace ingot::cache
