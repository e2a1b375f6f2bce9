// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.h"

#include <unistd.h>

namespace ingot {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

int UniqueFd::Reset() {
  const int closed = fd_ >= 0 ? ::close(fd_) : 0;
  fd_ = -1;
  return closed;
}

}  // namespace ingot
