// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "daemon/state/ports.h"

namespace ingot::daemon {

/// A compiler whose artifact says "artifact of <graph>", and "for <gears>" where there are any; it makes no code for
/// gears of a template named "ungeared". A graph named "bad" is unsupported, one named "crash" kills it, a template
/// named "halfbad" fails, and that of one named "from8" takes sizes from 8 on. The artifact of a graph named "loose"
/// says by which recipe it was made; what is found of it is a layout of 64 bytes for each size, and where it is also
/// named "slow" that kernel 7 is faster by "tile 2". Jobs wait while the gate is closed.
class FakeCompilers final : public Compilers {
 public:
  FakeCompilers();
  ~FakeCompilers() override { Stop(); }

  Result<CompilerFacts> Facts() override { return CompilerFacts{"fake 1", "x86-64-v3", {"avx2"}}; }
  bool Start(CompileJob job, Done done) override;
  void Interrupt() override;
  void Stop() override;
  size_t pending() const override;

  /// From now on it makes something else of a graph than other compilers do: this at the end.
  void AddToArtifacts(std::string what);
  /// From now on it says that each job has taken so many seconds.
  void SayTook(double seconds);
  void CloseGate();
  void OpenGate();
  /// Returns once a job has come.
  void WaitForJob();
  size_t started() const;

 private:
  void Loop();

  mutable Mutex mutex_;
  CondVar changed_;
  std::string addition_ GUARDED_BY(mutex_);
  double seconds_ GUARDED_BY(mutex_) = 0.5;
  bool open_ GUARDED_BY(mutex_) = true;
  bool stopping_ GUARDED_BY(mutex_) = false;
  size_t started_ GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<CompileJob, Done>> jobs_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ingot::daemon
