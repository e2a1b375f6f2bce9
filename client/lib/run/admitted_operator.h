// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ingot::client {

/// Who names an operator that is going to be called.
enum class NamedBy : uint8_t {
  kArchive,  ///< a file of a stranger's
  kPlan,     ///< a recording: whoever made it had called it, and libraries may have registered it
};

/// Whether whoever names it may have it called: it computes tensors of tensors and numbers, and can do nothing else
/// whatever it is given. Its namespace, its schema and its tags say so, and no list of operators: aten's and prims'
/// that have a kernel for dense tensors of the CPU; that take tensors, numbers and words of which all that may be meant
/// are known (CheckGiven), no storage, no stream, no object, and a generator only where none may be given; that write
/// no more than elements of what they are given. A plan may name, besides, the functional collectives, what PyTorch
/// brings along in other namespaces (its schemas are held to the same), and what libraries have registered; an archive
/// may not name what believes indices and sizes that it is given (believing_operator.h).
///
/// Autograd's own marks, which are no step of anything, are admitted too. Empty where it is admitted, else why not:
/// "takes a Storage ('source')".
std::string WhyNotAdmitted(const c10::OperatorHandle& op, NamedBy by);

/// As kUnsupported, with the operator's name and what to do. By name ("aten::add.Tensor") alone: whether it may be so
/// much as looked for.
Status CheckAdmitted(const std::string& name);
Status CheckAdmitted(const c10::OperatorHandle& op, NamedBy by);

/// What is given for an argument of an admitted operator: a word is one of those that the argument may be, a device is
/// the CPU, and nothing that PyTorch would check is to stay unchecked (`unsafe=True`).
Status CheckGiven(const c10::OperatorHandle& op, size_t argument, const c10::IValue& value);

/// Whether `text` is among the words that an argument of this name may be, in whatever operator of PyTorch's.
bool IsKnownText(std::string_view argument, std::string_view text);

}  // namespace ingot::client
