// SPDX-License-Identifier: Apache-2.0
// How a worker's memory is kept (see heap.cpp, which is the daemon's). LLVM makes and frees small things all the time,
// on every thread that generates code: with jemalloc a compile takes about a sixth less. No thread in the background:
// none may run before the process is shut off. What a job has left goes back with the next.

extern "C" {
extern __attribute__((visibility("default"))) const char* malloc_conf;
const char* malloc_conf = "narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0";
}
