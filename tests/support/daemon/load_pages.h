// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <utility>

#include "proto/load_page.h"

namespace ingot::daemon {

/// A page of proto/load_page.h, mapped as a client maps it.
class SharedPage {
 public:
  SharedPage(int file, bool is_written)
      : address_(mmap(nullptr, proto::kLoadPageBytes, is_written ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file,
                      0)) {
    EXPECT_NE(address_, MAP_FAILED);
  }
  SharedPage(SharedPage&& other) noexcept : address_(std::exchange(other.address_, MAP_FAILED)) {}
  ~SharedPage() {
    if (address_ != MAP_FAILED) munmap(address_, proto::kLoadPageBytes);
  }
  template <typename Fields>
  Fields& as() const {
    return *static_cast<Fields*>(address_);
  }

 private:
  void* address_;
};

}  // namespace ingot::daemon
