// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"

namespace ingot::client {

/// Names for people, by the symbols of the code: {"ingot_k_49bf9c1ce9531174", "k0_exp_mul.ingot_k_49bf9c1ce9531174"}.
using KernelNames = std::map<std::string, std::string, std::less<>>;

/// A shared object that CheckSharedObject() has let in, with a symbol table beside the one that it is linked by, in
/// which its symbols have these names. What is loaded of it is what was loaded before. Code without section headers, or
/// whose headers say what cannot be, comes back as it is.
Buffer WithNames(Bytes code, const KernelNames& names);

/// The directory in which code is kept for profilers and debuggers, which cannot read sealed memory: INGOT_CODE_DIR.
/// Empty: nowhere, as ever.
std::string CodeDirectory();

/// Writes code that was let in, with names, to `directory` and gives its path, which names function and artifact. A
/// file that says the same stays. kUnavailable, with what to do: others may write there, or nobody; kExhausted: the
/// disk is full.
Result<std::string> KeepCode(const std::string& directory, const std::string& function, Digest artifact, Bytes code,
                             const KernelNames& names);

}  // namespace ingot::client
