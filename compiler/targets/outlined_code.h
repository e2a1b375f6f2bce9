// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/result.h"

namespace ingot::compiler {

/// Relocatable code that kernels call: exports `symbol`, imports nothing. All that it does is in its name, so that
/// whatever has one name is the same code.
class OutlinedCode {
 public:
  explicit OutlinedCode(std::string symbol) : symbol_(std::move(symbol)) {}
  const std::string& symbol() const { return symbol_; }
  /// Called once, by whoever makes it.
  void Set(Result<Buffer> bytes);
  /// Waits for that. They live as long as this.
  Result<Bytes> bytes() const;

 private:
  const std::string symbol_;
  Result<Buffer> bytes_ = Buffer();
  std::promise<void> promise_;
  const std::shared_future<void> is_made_ = promise_.get_future().share();
};

/// What this process has made of it: most products of a model, and of models of one kind, are the same code for other
/// sizes. Thread-safe.
class OutlinedCodes {
 public:
  static OutlinedCodes& OfThisProcess();
  /// `is_new`: nobody has asked for it before, so that the caller must make it.
  std::shared_ptr<OutlinedCode> Take(const std::string& symbol, bool& is_new);

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<OutlinedCode>> all_ GUARDED_BY(mutex_);
};

}  // namespace ingot::compiler
