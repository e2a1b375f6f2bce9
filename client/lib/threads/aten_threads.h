// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ingot::client {

/// For its scope, operators of PyTorch's that the calling thread runs start no more than `most` threads: those of ATen
/// and oneDNN, which are OpenMP's, and MKL's. Other threads of the process keep their number, and so
/// does this one where whatever runs meanwhile sets another.
class AtenThreads {
 public:
  explicit AtenThreads(int most);
  ~AtenThreads();
  AtenThreads(const AtenThreads&) = delete;
  AtenThreads& operator=(const AtenThreads&) = delete;

 private:
  int most_;
  int before_ = 0;
  int mkl_before_ = 0;
};

}  // namespace ingot::client
