// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>

namespace ingot::client {

/// What is known of the threads in which Ingot itself runs Python: whether one may, and how many
/// do.
///
/// An interpreter that is ending does not give the GIL back: up to Python 3.13 a thread that asks
/// for it is ended by unwinding, and where that meets a destructor the process, whose answers are
/// already printed, dies of std::terminate(). So the exit of the process (`ingot.site.background`) lets
/// no thread begin any more, and waits for those within; one that has let go of the GIL does not
/// take it again. Everything here is called with the GIL held.
class BackgroundThread {
 public:
  /// The calling thread runs Python from now on; false once the process is ending: it must not.
  static bool Enter();
  /// It does no longer.
  static void Leave();
  /// The calling thread is about to wait without the GIL; whether it is one of these.
  static bool StepOut();
  /// It has the GIL again. Does not return while the process is ending.
  static void StepIn();
  /// Lets none begin, and lets those within run until they are out; whether they were, after
  /// `limit`.
  static bool End(std::chrono::milliseconds limit);
  /// In a child process, which has none of them.
  static void Forget();

 private:
  static int within_;
  static bool is_ending_;
  static thread_local bool is_this_;
};

/// For a thread that Python wants to unwind: it stays where it is until the process is gone, as
/// with Python 3.14.
[[noreturn]] inline void StayForever() {
  for (;;) pause();
}

}  // namespace ingot::client
