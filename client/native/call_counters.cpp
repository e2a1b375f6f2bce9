// SPDX-License-Identifier: Apache-2.0
#include "client/native/call_counters.h"

namespace ingot::client {

CallCounters& Counters() {
  static CallCounters counters;
  return counters;
}

}  // namespace ingot::client
