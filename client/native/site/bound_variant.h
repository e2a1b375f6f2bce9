// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <deque>
#include <memory>
#include <vector>

#include "client/lib/run/program.h"
#include "client/native/guards/guard_policy.h"
#include "client/native/guards/state_guards.h"
#include "client/native/guards/validated_record.h"
#include "client/native/log/object_path.h"
#include "client/native/site/agreed_sizes.h"
#include "client/native/site/output_tree.h"
#include "guards/ranges.h"

namespace ingot::client {

/// The tensors of one run, in manifest order: the call's own, then those fetched from its objects.
struct RunInputs {
  std::vector<const at::Tensor*> tensors;
  std::vector<PyObject*> held;    ///< fetched objects, kept alive during the run
  std::deque<at::Tensor> numbers;  ///< made of fetched numbers

  void Clear();
};

/// One variant, bound to the objects of this process: what a call can run.
/// Needs the GIL except where Program says otherwise.
class BoundVariant {
 public:
  BoundVariant(std::shared_ptr<Program> program, std::unique_ptr<OutputTree> outputs);
  ~BoundVariant();

  /// Of what Python resolved (binding.py), a dict; throws where it holds something else.
  static std::shared_ptr<BoundVariant> Of(PyObject* dict);

  /// How a change in the objects of the call is noticed.
  void set_state_guards(std::shared_ptr<const StateGuards> state_guards) { state_guards_ = std::move(state_guards); }
  /// How an assigned parameter, a replaced submodule, an edited attribute or a patched function is noticed; for the
  /// variant's bindings to other objects as well.
  void set_validated(std::shared_ptr<const ValidatedRecord> validated) { validated_ = std::move(validated); }
  const std::shared_ptr<const ValidatedRecord>& validated() const { return validated_; }
  /// Held weakly where the type allows it: a KV cache must be free to go, and what is watched inside it goes too.
  static void AddObject(const std::shared_ptr<BoundVariant>& variant, PyObject* object);
  /// A call stores something in it; the outputs hold it.
  void AddChanged(PyObject* object) { changed_.push_back(object); }
  void AddFetch(ObjectPath path) { fetches_.push_back(std::move(path)); }
  /// Both lead to one object, which is fetched by one of them.
  void AddSame(ObjectPath one, ObjectPath other) { same_.emplace_back(std::move(one), std::move(other)); }
  void AddWeight(at::Tensor weight) { weights_.push_back(std::move(weight)); }
  /// Weights, by number, whose gradients the function turns off itself: those may require one in any mode.
  void set_untracked(std::vector<int64_t> untracked) { untracked_ = std::move(untracked); }
  /// The mode of autograd in which it runs where that is the function's own, not the call's: "grad", "no_grad" or
  /// "inference"; else "".
  void set_mode(std::string mode) { mode_ = std::move(mode); }
  void AddProven(std::vector<int64_t> symbols);
  void set_heavy(bool heavy) { heavy_ = heavy; }
  /// By which other ranks know the same code (RankConsensus); 0: they do not.
  void set_number(int64_t number) { number_ = number; }
  int64_t number() const { return number_; }
  void set_agreed(std::shared_ptr<const AgreedSizes> agreed) { agreed_ = std::move(agreed); }
  void set_verifiable(bool verifiable) { verifiable_ = verifiable; }

  void set_policy(GuardPolicy policy) { policy_ = policy; }
  /// Proves sizes without a recording (docs/format/guards.md, over the program's symbols).
  void set_range(guards::Ranges range) { range_ = std::move(range); }

  bool ObjectsMatch(const std::vector<PyObject*>& objects) const;
  /// Whether a part of the call's arguments is what this stores something in: it would be read as it was before.
  bool ChangesAny(const std::vector<PyObject*>& parts) const;
  /// Nothing that is watched has changed. Needs ObjectsMatch().
  bool StateHolds() const { return state_guards_ != nullptr && state_guards_->Holds() && validated_->Holds(); }
  /// Forgets what is watched: an object it was bound to is gone.
  void Drop() { state_guards_.reset(); }
  /// Adds what lies in the program's objects; false when a path leads to no tensor or size any more.
  bool Fetch(const std::vector<PyObject*>& objects, RunInputs& inputs) const;
  /// A template runs only sizes that a recording has proved, or that lie in its proved ranges.
  bool IsProven(const int64_t* symbols, size_t count) const;
  /// Whether calls of these sizes need not be eager's until native code has been held against them.
  bool LetsPass(const int64_t* symbols, size_t count) const { return agreed_->LetsPass(symbols, count); }
  /// Whether a weight requires grad and eager would track it in the mode in which this was recorded.
  bool AnyWeightIsTracked() const;
  const std::string& mode() const { return mode_; }
  /// For Python's collector of cycles: each reference that this owns, and nobody else. Without those of standing().
  int Traverse(visitproc visit, void* arg) const;

  Program& program() const { return *program_; }
  GuardPolicy& policy() { return policy_; }
  const std::shared_ptr<Program>& shared_program() const { return program_; }
  const OutputTree& outputs() const { return *outputs_; }
  /// It has steps of ATen, which may take long whatever its inputs are.
  bool heavy() const { return heavy_; }
  /// Running it twice does no more than running it once.
  bool verifiable() const { return verifiable_; }

 private:
  std::shared_ptr<Program> program_;
  std::unique_ptr<OutputTree> outputs_;
  std::shared_ptr<const StateGuards> state_guards_;
  std::shared_ptr<const ValidatedRecord> validated_;
  std::vector<ObjectPath> fetches_;
  std::vector<std::pair<ObjectPath, ObjectPath>> same_;
  std::vector<PyObject*> objects_;  ///< weak references, or the objects themselves
  std::vector<PyObject*> changed_;  ///< borrowed
  std::vector<at::Tensor> weights_;
  std::vector<int64_t> untracked_;            ///< ascending
  std::vector<std::vector<int64_t>> proven_;  ///< sorted
  std::shared_ptr<const AgreedSizes> agreed_;
  guards::Ranges range_;                      ///< empty: only what is in proven_
  GuardPolicy policy_;
  std::string mode_;
  bool heavy_ = false;
  int64_t number_ = 0;
  bool verifiable_ = true;
};

}  // namespace ingot::client
