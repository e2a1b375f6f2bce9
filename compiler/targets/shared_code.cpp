// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/shared_code.h"

#include <utility>

namespace ingot::compiler {

void SharedCode::Set(Result<Buffer> bytes) {
  bytes_ = std::move(bytes);
  promise_.set_value();
}

Result<Bytes> SharedCode::bytes() const {
  is_made_.wait();
  if (!bytes_) return bytes_.error();
  return Bytes(*bytes_);
}

SharedCodes& SharedCodes::OfThisProcess() {
  static SharedCodes codes;
  return codes;
}

std::shared_ptr<SharedCode> SharedCodes::Take(const std::string& symbol, bool& is_new) {
  // A megabyte of code; what is dropped is made again.
  constexpr size_t kCodesMax = 256;
  const MutexLock lock(mutex_);
  const auto found = all_.find(symbol);
  is_new = found == all_.end();
  if (!is_new) return found->second;
  if (all_.size() >= kCodesMax) all_.clear();
  return all_[symbol] = std::make_shared<SharedCode>(symbol);
}

}  // namespace ingot::compiler
