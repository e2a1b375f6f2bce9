// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/call_counters.h"

namespace ingot::client {

CallCounters& Counters() {
  static CallCounters counters;
  return counters;
}

}  // namespace ingot::client
