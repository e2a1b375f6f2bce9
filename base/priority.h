// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ingot {

/// Where processors are short, the calling thread gives way by so much (a nice value, added to what it has; at most
/// 19), and leaves the first of the processors that it may use to others: what wakes there runs at once, also where the
/// kernel would find another's turn fair. One that cannot be lowered works as the others do.
void GiveWay(int nice);

/// The calling thread works for microseconds and is waited for: it asks for its processor in short slices, and so it is
/// put before threads that compute, without taking more from them in all. Linux 6.12 and later; nothing before.
void AnswerSoon();

}  // namespace ingot
