// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <type_traits>
#include <utility>

namespace ingot::daemon {

/// Tasks that any thread gives, without waiting for another, and that whoever runs them takes all at once. Those that
/// never ran are dropped. Thread-safe.
class TaskStack {
 public:
  struct Task {
    virtual ~Task() = default;
    virtual void Run() = 0;
    Task* next = nullptr;
  };
  using TaskRef = std::unique_ptr<Task>;

  /// A task of something to call, which need not be one that can be copied.
  template <typename Call>
  static TaskRef TaskOf(Call&& call) {
    using Kept = std::decay_t<Call>;
    struct TaskOfCall final : Task {
      explicit TaskOfCall(Kept call) : call(std::move(call)) {}
      void Run() override { call(); }
      Kept call;
    };
    return std::make_unique<TaskOfCall>(std::forward<Call>(call));
  }
  /// The first of a list that TakeAll gave; `list` is then what follows it, and null at its end.
  static TaskRef TakeFirst(Task*& list) { return TaskRef(std::exchange(list, list->next)); }

  TaskStack() = default;
  TaskStack(const TaskStack&) = delete;
  TaskStack& operator=(const TaskStack&) = delete;
  ~TaskStack() {
    for (Task* list = TakeAll(); list != nullptr;) TakeFirst(list);
  }

  /// True when there was none. `task` may be gone when this returns.
  bool Push(TaskRef task) {
    Task* before = last_.load(std::memory_order_relaxed);
    Task* const pushed = task.release();
    do {
      pushed->next = before;
    } while (!last_.compare_exchange_weak(before, pushed, std::memory_order_acq_rel));
    return before == nullptr;
  }
  /// All that were pushed, as a list, the first first; null when there are none.
  Task* TakeAll() {
    Task* first = nullptr;
    for (Task* task = last_.exchange(nullptr, std::memory_order_acq_rel); task != nullptr;) {
      Task* const next = task->next;
      task->next = first;
      first = task;
      task = next;
    }
    return first;
  }

 private:
  std::atomic<Task*> last_{nullptr};
};

}  // namespace ingot::daemon
