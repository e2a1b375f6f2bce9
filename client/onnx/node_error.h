// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace ingot::onnx {

/// What keeps a node from being run, thrown inside of lowerings, which are expressions; whoever runs nodes catches it,
/// as it does ATen's own exceptions.
class NodeError : public std::exception {
 public:
  NodeError(Code code, std::string what) : error_(code, std::move(what)) {}
  explicit NodeError(Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message().c_str(); }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// Thrown where known integers cannot be moved, since sizes decide where they go: tensors do it.
struct NeedsTensors {};

/// Refuses a node: right, but not something Ingot does.
[[noreturn]] inline void Refuse(std::string what) { throw NodeError(Code::kUnsupported, std::move(what)); }
/// A node that breaks ONNX's rules.
[[noreturn]] inline void Reject(std::string what) { throw NodeError(Code::kInvalid, std::move(what)); }

}  // namespace ingot::onnx
