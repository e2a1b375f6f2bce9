// SPDX-License-Identifier: Apache-2.0
#pragma once

// The C++ face of Ingot, installed as <ingot/client.h>; CMake: find_package(ingot), ingot::client.
//
//   auto function = ingot::Function::Load("model.ingot");
//   if (!function) return Fail(function.error().ToText());
//   const std::vector<at::Tensor> inputs = {x};
//   ingot::Result<std::vector<at::Tensor>> outputs = function->Run(inputs);

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/result.h"

#define INGOT_API __attribute__((visibility("default")))

namespace ingot {

/// Where the daemon of a store is and how it is reached.
struct ClientOptions {
  std::string store_dir;  ///< Empty: INGOT_STORE_DIR, else $XDG_CACHE_HOME/ingot, else ~/.cache/ingot.
  std::string socket;     ///< Empty: INGOT_SOCKET, else derived from the store.
  std::string daemon;  ///< Path of ingotd; empty: INGOT_DAEMON, else beside this library or program, else on PATH.
  bool start = true;  ///< Start a daemon when there is none.
  int deadline_ms = -1;  ///< For each question to the daemon; negative: none.
};

/// A connection to the daemon of one store. Thread-safe; cheap to copy: copies share it.
class INGOT_API Client {
 public:
  /// kUnavailable: no daemon runs and none could be started, or one of another build serves the
  /// store; kTimeout: it did not answer in time.
  static Result<Client> Connect(const ClientOptions& options = {});

  /// What the daemon answers to a reading verb of the command line, both as JSON (docs/cli.md).
  Result<std::string> Query(const std::string& verb, const std::string& arguments = "{}") const;

 private:
  friend class Function;
  struct State;
  explicit Client(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Weights by the names they were recorded under ("self.layers.0.weight").
using NamedTensors = std::map<std::string, at::Tensor>;

/// Where the weights of an exported file may lie that are not in it.
enum class WeightsFrom : uint8_t {
  kBeside,    ///< Below the folder of the file.
  kAnywhere,  ///< Where it says: who made it then names files of this machine.
};

/// A compiled function. Thread-safe; cheap to copy: copies share weights and code. Needs no Python,
/// and no daemon once it is loaded.
class INGOT_API Function {
 public:
  /// An exported file (Python: f.export(path); command line: ingot compile) with the weights in it. It is machine
  /// code: whoever made it can do what this process can (`ingot verify FILE` tells who signed it).
  /// kNotFound: no such file; kCorrupt: damaged; kIncompatible: of another version, or made for
  /// another processor; kInvalid: its weights are outside of its folder.
  static Result<Function> Load(const std::string& path, WeightsFrom weights = WeightsFrom::kBeside);

  /// What a daemon has stored. `key` is an entry's key or the start of it (ingot list): all its
  /// variants are loaded, the newest that takes a call serves it. Or it is the 32 hex digits of one
  /// artifact; one with symbolic sizes then serves no call, because only the entry knows which
  /// sizes are proved. The store holds no weights: `weights` has those that the variants name. What
  /// the recording depended on in Python is not looked at: who names a key means that entry.
  /// kNotFound: no such entry or artifact, or the first weight that is missing.
  static Result<Function> Load(const Client& client, const std::string& key, const NamedTensors& weights);

  /// Arguments by name; what they hold are tensors, None, numbers, strings, devices, and tuples,
  /// lists and dicts of those.
  using Keywords = std::vector<std::pair<std::string, c10::IValue>>;

  /// Calls the function as Python would; results are its tensor results in order, contiguity and
  /// sizes as eager gives them. Grad mode must be off for inputs that require grad.
  ///
  /// kInvalid: no argument structure that was compiled (Signatures()) is that of the call, or its
  /// sizes, strides or values are not what was compiled, and says what differs first; or an operator refuses
  /// what it is given. kUnsupported: an input requires grad; kHalfDone: an operator refused after others
  /// had written to inputs or weights.
  Result<std::vector<at::Tensor>> Call(std::span<const c10::IValue> arguments, const Keywords& keywords = {}) const;

  /// The same with the tensors alone, in the order of the recorded call; everything else is as it
  /// was there. kInvalid also where several argument structures have such tensors.
  Result<std::vector<at::Tensor>> Run(std::span<const at::Tensor> inputs) const;

  /// What may be called, one line for each argument structure: "(x: float32[2 dims], scale=0.5)".
  /// Empty for what comes from a daemon, which is called by its tensors alone.
  std::vector<std::string> Signatures() const;

  /// The name of the recorded function.
  const std::string& name() const;

 private:
  struct State;
  explicit Function(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace ingot
