// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "cache/trust/signing_key.h"
#include "cache/trust/trust.h"

namespace ingot::cache {

/// Where the signature of a file is: beside it.
std::string SignaturePathOf(const std::string& path);
/// What a file is signed as: its name without its folder, so that none of two signed files is taken for the other.
std::string SignedNameOf(const std::string& path);

/// The signature of an exported file (docs/format/provenance.md): an envelope of another kind than those of artifacts,
/// over SHA-256 of the content and the name. kInvalid: a name that cannot be signed.
Result<Buffer> SignExportedFile(const SigningKey& key, const std::string& name, Bytes content, int64_t now_s);
/// Whether somebody who may write files of that name has signed this content. An empty signature: nobody has.
Judgement JudgeExportedFile(const Trust& trust, const std::string& name, Bytes content, Bytes signature);

}  // namespace ingot::cache
