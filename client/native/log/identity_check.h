// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "client/native/log/dependency_record.h"

namespace ingot::client {

/// What a record leaves unsaid, or says wrongly, of which places of a run led to one object: made anew of all that the
/// run read, whatever rows were kept. A variant with such a record would serve calls in which its inputs are others.
/// Nothing where every place is named as the object that it led to, no two objects share a name, both ends of every
/// answer that two objects are two are places of the record, and no place has two contents. Needs the GIL; after
/// ObservedLog::Settle().
std::optional<std::string> FindIdentityFault(const ObservedLog& log, const DependencyRecord& record);

}  // namespace ingot::client
