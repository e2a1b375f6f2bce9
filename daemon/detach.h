// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ingot::daemon {

/// Closes what was open in whoever started this process, all but the standard streams and `ready_fd`, which gets
/// the next number: whoever waits for the end of a pipe or for a lock (a shell, multiprocessing) waits for the
/// starter, not for us. Before this process opens anything of its own.
void CloseInherited(int& ready_fd);

/// Leaves the session of whoever started us and takes nothing of his state along: working directory, standard
/// streams, umask, signals ignored or blocked, the processors he is bound to, his niceness and soft limits. The
/// starter's child ends at once, so that nobody has to wait for it. What a control group or a hard limit says stays.
void Detach();
/// Of this process and those it starts: what is in their memory, keys and passwords among it, is written nowhere.
void LeaveNoCore();

}  // namespace ingot::daemon
