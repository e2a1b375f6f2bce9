// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/outlined_code.h"

#include <utility>

namespace ingot::compiler {

void OutlinedCode::Set(Result<Buffer> bytes) {
  bytes_ = std::move(bytes);
  promise_.set_value();
}

Result<Bytes> OutlinedCode::bytes() const {
  is_made_.wait();
  if (!bytes_) return bytes_.error();
  return Bytes(*bytes_);
}

OutlinedCodes& OutlinedCodes::OfThisProcess() {
  static OutlinedCodes codes;
  return codes;
}

std::shared_ptr<OutlinedCode> OutlinedCodes::Take(const std::string& symbol, bool& is_new) {
  // A megabyte of code; what is dropped is made again.
  constexpr size_t kCodesMax = 256;
  const MutexLock lock(mutex_);
  const auto found = all_.find(symbol);
  is_new = found == all_.end();
  if (!is_new) return found->second;
  if (all_.size() >= kCodesMax) all_.clear();
  return all_[symbol] = std::make_shared<OutlinedCode>(symbol);
}

}  // namespace ingot::compiler
