// SPDX-License-Identifier: Apache-2.0
// How the daemon's memory is kept; jemalloc reads this by its name (not in sanitized builds: they bring a heap of their
// own).
//
// Threads of glibc's heap share a few arenas: where one that gives way loses its processor with the lock of an arena,
// those that answer somebody wait for it, for tens of milliseconds where processors are short. With jemalloc they take
// what is small from caches of their own. Its own settings would keep several times of what is in use, where blocks of
// many MB come and go: here what was freed goes back after a second, also in a daemon that has nothing more to do. By
// default a block of 8 MB goes back at once, by the thread that frees it: the one that answers would do so for a
// millisecond and longer.

extern "C" {
extern __attribute__((visibility("default"))) const char* malloc_conf;
const char* malloc_conf = "narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true,oversize_threshold:0";
}
