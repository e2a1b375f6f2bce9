// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/made_objects.h"

#include <algorithm>

namespace ingot::client {
namespace {

/// Where the blocks of this thread are noted; null for one that nobody listens to.
thread_local std::vector<const void*>* t_blocks = nullptr;

/// Between Python and its allocator while anybody listens.
struct Hook {
  PyMemAllocatorEx before;
  int listeners = 0;

  static void* Note(void* block) {
    if (t_blocks != nullptr) t_blocks->push_back(block);
    return block;
  }
  static void* Allocate(void* self, size_t size) {
    const auto& before = static_cast<Hook*>(self)->before;
    return Note(before.malloc(before.ctx, size));
  }
  static void* AllocateZeros(void* self, size_t count, size_t size) {
    const auto& before = static_cast<Hook*>(self)->before;
    return Note(before.calloc(before.ctx, count, size));
  }
  static void* Resize(void* self, void* block, size_t size) {
    const auto& before = static_cast<Hook*>(self)->before;
    return Note(before.realloc(before.ctx, block, size));
  }
  static void Free(void* self, void* block) {
    const auto& before = static_cast<Hook*>(self)->before;
    before.free(before.ctx, block);
  }

  bool IsInFront() const {
    PyMemAllocatorEx now;
    PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &now);
    return now.ctx == this;
  }

  /// False where a tool has put itself in front, behind which this stays.
  bool Join() {
    if (listeners > 0) return IsInFront() && ++listeners > 0;
    PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &before);
    PyMemAllocatorEx own{this, &Allocate, &AllocateZeros, &Resize, &Free};
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &own);
    return ++listeners > 0;
  }

  void Leave() {
    // One listener too many is counted where it cannot be taken out: it is never put in twice.
    if (listeners > 1)
      --listeners;
    else if (IsInFront()) {
      PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &before);
      listeners = 0;
    }
  }
};

Hook g_hook;

/// What lies in front of an object in its block: the links of the garbage collector, and the places
/// of a dict and of weak references that the interpreter manages.
size_t HeaderSize(PyTypeObject* type) {
  constexpr size_t kWord = sizeof(void*);
#if PY_VERSION_HEX >= 0x030C0000
  constexpr unsigned long kManaged = Py_TPFLAGS_MANAGED_DICT | Py_TPFLAGS_MANAGED_WEAKREF;
#else
  constexpr unsigned long kManaged = Py_TPFLAGS_MANAGED_DICT;
#endif
  return (PyType_IS_GC(type) ? 2 * kWord : 0) + ((type->tp_flags & kManaged) != 0 ? 2 * kWord : 0);
}

}  // namespace

void MadeObjects::Start() {
  if (is_running_ || t_blocks != nullptr || !g_hook.Join()) return;
  t_blocks = &blocks_;
  is_running_ = true;
}

void MadeObjects::Stop() {
  if (!is_running_) return;
  is_running_ = false;
  t_blocks = nullptr;
  g_hook.Leave();
  blocks_ = {};
  known_ = {};
}

bool MadeObjects::Contain(PyObject* instance) {
  if (!is_running_) return true;
  const void* block = reinterpret_cast<char*>(instance) - HeaderSize(Py_TYPE(instance));
  if (known_.contains(block)) return true;
  // Most are looked at soon after they were made.
  if (std::find(blocks_.rbegin(), blocks_.rend(), block) == blocks_.rend()) return false;
  known_.insert(block);
  return true;
}

}  // namespace ingot::client
