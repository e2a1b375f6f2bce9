// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bytes.h"
#include "base/result.h"

namespace ingot::client {

/// Accepts an x86-64 shared object that is nothing but code and data: no needed library, no
/// undefined symbol, no initialiser or finaliser, no resolver function, no text relocation.
/// Loading such an object runs nothing. Reads only the bytes; every offset is checked.
/// kCorrupt: not such a file; kIncompatible: it has one of the above, named.
Status CheckSharedObject(Bytes file);

}  // namespace ingot::client
