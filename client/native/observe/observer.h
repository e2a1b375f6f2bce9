// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/native/cpython/instruction.h"
#include "client/native/cpython/made_objects.h"
#include "client/native/effects/effect_table.h"
#include "client/native/log/dependency_record.h"
#include "client/native/log/observed_log.h"
#include "client/native/observe/awaited.h"
#include "client/native/symbolic/size_floats.h"
#include "client/native/symbolic/size_terms.h"
#include "client/native/symbolic/tensor_numbers.h"

namespace ingot::client {

/// Watches every instruction of one call and writes down what it reads of objects that existed
/// before, and what it writes to them (observed_log.h).
///
/// The run is a function of what was read: each instruction and each callable made in C has an
/// entry in a table that says what it looks at (instruction_*.cpp, effect_table.cpp). What no table
/// explains ends the observation with a refusal that names it; the call itself runs on. Code of
/// Ingot itself, of importing and of logging is not looked at. Belongs to one thread; needs the
/// GIL.
class Observer final : private InstructionListener {
 public:
  struct Refused {
    std::string name;
    std::string detail;
  };

  /// `own`: the directory of the ingot package.
  explicit Observer(std::string own);

  ObservedLog& log() { return log_; }
  const ObservedLog& log() const { return log_; }

  /// Begins with the call of `target`; kUnsupported under a debugger or coverage tool.
  Status Start(PyObject* target, uint64_t instructions_max);
  /// Refuses a run that leaves a context variable changed.
  void Stop();

  /// The first refusal wins, and ends the observation: the rest of the call finds no trace of it.
  void Refuse(std::string name, std::string detail);
  const std::optional<Refused>& refused() const { return refused_; }
  /// What the run had read when it was refused, but for what it had changed: objects are let go at once, so that they
  /// end as in a run that nobody sees.
  const std::vector<DependencyRow>& read_before_refusal() const { return read_before_refusal_; }
  /// What it had tried to import by then, and is not there.
  const std::vector<std::string>& missed_before_refusal() const { return missed_before_refusal_; }
  /// What the recorder of the same run is told.
  struct Hooks {
    /// Once, when the observation ends.
    std::function<void(const Refused&)> refuse = [](const Refused&) {};
    /// Memory leaves the graph without an operator, which is about to run.
    std::function<void(const Refused&)> escape = [](const Refused&) {};
    /// All elements of a tensor are about to be read.
    std::function<void(PyObject* tensor)> list = [](PyObject*) {};
    /// `alias` was made of `tensor` and shares its memory.
    std::function<void(PyObject* tensor, PyObject* alias)> alias = [](PyObject*, PyObject*) {};
  };
  /// Code objects that run wherever Python happens to be, such as those of signal handlers: of no call.
  void set_interrupts(std::vector<PythonRef> codes) { interrupts_ = std::move(codes); }
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }
  /// A container among the arguments of which the call's structure did not say enough, borrowed; or null.
  PyObject* touched() const { return touched_.get(); }
  uint64_t instruction_count() const { return trace_.count(); }
  /// From now on follows what is computed with sizes. `log` is of the recorder of the same run and
  /// lives as long as this.
  void FollowSizes(const IntLog* log, SizeTerms::TensorValue value_of) {
    int_log_ = log;
    sizes_.set_value_of(std::move(value_of));
    follows_sizes_ = true;
  }
  SizeTerms& sizes() { return sizes_; }
  TensorNumbers& numbers() { return numbers_; }
  /// `made` is in the place of a number that the program has there.
  void StandsFor(PyObject* made, PyObject* given) { stood_for_.insert_or_assign(made, PythonRef::Borrow(given)); }
  /// The line that runs, for people.
  std::string Where() const;
  /// After the run: a number becomes part of what every call does, as it is.
  void FixValue(PyObject* value) { SpecializeOn(value); }

  /// A set that the run has made is given out: in which order its members are depends on what it was made of.
  void InheritedOrders();

 private:
  using Number = ObservedLog::Number;
  /// A cell's place: the variable of a function, which is its closure's cell of that index.
  struct CellOf {
    Number function;
    PyObject* name;
    Py_ssize_t index;
  };
  /// Why the result of an instruction is waited for.
  enum Tag : int {
    kNone,
    kImported,
    kMade,  ///< a function or a class
    kMadeClass,  ///< by a class statement
    kSetting,  ///< must be a plain value
    kAnswered,  ///< by a cached function, with something that cannot change
    kAliased,  ///< the `data` of a tensor
    kOperatorAnswer  ///< of an operator that was called by its own name
  };
  struct Arguments {
    PyObject* const* values;
    size_t count;  ///< with those of keywords
    PyObject* keyword_names;
    size_t positional() const {
      return count - (keyword_names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(keyword_names)));
    }
    /// Whether a function of numpy's is handed an array for its result: by name, or behind the others. Those of a
    /// ufunc are as many as it says; methods take it behind the array, the axis and the type.
    bool NameOutput(PyObject* ufunc = nullptr) const;
  };

  void CollectAgain();

  FrameMode OnEnter(const EnteredFrame& frame) override;
  int OnInstruction(const Instruction& instruction) override;
  ResultUse TakesResults() const override { return result_use_; }
  bool Changes() const override { return !refused_ && (log_.writes().size() > writes_before_ || !answers_.empty()); }
  void OnRaise() override;
  PyObject* OnResult(int tag, PyObject* result) override;

  // observer.cpp
  template <typename Step>
  void Guard(Step step);
  void ReleaseLog();
  int See(const Instruction& instruction);
  bool IsMade(PyObject* value);
  void SeeResult(int tag, PyObject* result);
  void SeeAnswer(PyObject* result);
  void NoteOperators();
  void NoteNamed(PyObject* made);
  void Identity(PyObject* one, PyObject* other);

  // observe_instructions.cpp
  int Observe(const Instruction& instruction);
  static ResultUse ResultUseOf(const Instruction& instruction);
  void Give(PyObject* value, ResultUse use);
  void Compare(PyObject* a, PyObject* b);
  void Combine(PyObject* a, PyObject* b);
  void TakeAll(PyObject* value);
  void EnterContext(PyObject* context);
  void Raise(PyObject* exception);
  void Catch(PyObject* exception, PyObject* classes);
  void MatchClass(PyObject* subject, PyObject* type, PyObject* names);
  void LoadBuildClass();
  int CallExpanded(PyObject* callable, PyObject* positional, PyObject* keywords);

  // observe_frames.cpp
  FrameMode Enter(const EnteredFrame& frame);
  void Explain(const EnteredFrame& frame);
  void EnterOperator(const EnteredFrame& frame);
  void EnterFunction(PyObject* function);
  void NoteByName(PyObject* function, std::string_view module, std::string_view qualname);
  void NoteFunction(PyObject* function);
  void NoteCell(const CellOf& cell);
  void LoadClassCell();

  // observe_names.cpp
  void Import(PyObject* name);
  void LoadGlobal(const Instruction& instruction);
  void LoadBuiltin(PyObject* name);
  void StoreGlobal(const Instruction& instruction);
  void LoadCell(PyObject* cell);
  void StoreCell(PyObject* cell, PyObject* value);
  std::optional<Number> ModuleNumber(PyObject* module);
  std::optional<Number> ModuleOfGlobals(PyObject* globals);
  std::optional<Number> TypeNumber(PyTypeObject* type);

  // observe_lookups.cpp
  void NoteTypeOfRoot(PyObject* instance);
  PyObject* LookUp(PyTypeObject* type, PyObject* name, PyObject* instance);
  PyObject* LookUp(PyTypeObject* type, const char* name, PyObject* instance);
  bool IsWrittenInClasses(PyTypeObject* type, PyObject* name) const;
  void LookUpInBases(PyTypeObject* type, PyObject* name);
  void LookUpSpecial(PyObject* instance, const char* name);

  // observe_attributes.cpp
  void LoadAttribute(PyObject* object, PyObject* name);
  void LoadNoOperator(PyObject* object, PyObject* name);
  void LoadUncached(PyObject* object, PyObject* name);
  bool IsCached(PyObject* object, PyObject* name);
  void NoteFunctionByName(PyObject* object);
  void LoadGeneric(PyObject* object, PyObject* name, bool has_hook);
  void LoadMissing(PyObject* object, PyObject* name, bool has_hook);
  void FallsBack(PyObject* object);
  void LoadFromModule(PyObject* module, PyObject* name);
  void BindToModule(PyObject* found, PyObject* module);
  void LoadFromType(PyTypeObject* type, PyObject* name);
  void LoadPartOfType(PyTypeObject* type, PyObject* name);
  void LoadFromSuper(PyObject* object, PyObject* name);
  void NoteProtocol(PyObject* found);
  void Bind(PyObject* descriptor, PyObject* object);
  void Getter(PyObject* object, PyObject* found);
  void OwnGetter(PyObject* object, PyObject* found);
  bool IsOwn(PyObject* value);
  void LeadsOn(PyObject* object, PyObject* found);
  void RefuseArgument(const char* name, PyObject* argument, std::string detail);
  void CheckField(PyObject* object, PyObject* name);
  void AllAttributes(PyObject* object);
  void StoreAttribute(PyObject* object, PyObject* name, PyObject* value);
  void StoreGeneric(PyObject* object, PyObject* name, PyObject* value);

  void Escape(PyObject* tensor, std::string_view name, std::string_view method);
  void CheckClass(PyObject* tensor);

  // observe_values.cpp
  void Operand(PyObject* value);
  void NoteNumpy();
  static bool IsPart(PyObject* value);
  static bool IsToldByName(PyObject* member);
  void Keys(PyObject* value);
  void Deep(PyObject* value);
  bool WalkInto(PyObject* value, std::vector<PyObject*>& waiting);
  void WalkIntoSet(PyObject* set, std::vector<PyObject*>& waiting);
  void DeepCompared(PyObject* value);
  void Write(Number holder, AccessKind access, PyObject* key, const char* name, PyObject* value);
  bool IsGuardedElsewhere(PyObject* value, const char* what);

  // observe_classes.cpp
  void NoteType(PyObject* instance);
  void NoteSpecial(PyTypeObject* type, PyObject* instance);
  void LookIntoSpecial(PyTypeObject* type, PyObject* instance);
  void ReadsUnderName(PyTypeObject* type, PyObject* name, PyObject* found);
  enum class Code { kNative, kPython };
  Code CodeOf(PyObject* object, const char* name);
  void CalledFromClass(PyObject* found);
  void CalledUnderName(PyTypeObject* type, PyObject* name, PyObject* found);
  void NoteBases(PyTypeObject* type);
  void NoteBasesOf(Number type);
  void NoteOfBases(PyTypeObject* type, const char* field);
  void NoteShape(PyObject* value);
  void ClassOf(PyObject* value);
  PyObject* SelfOf(PyObject* bound);
  void Callee(PyObject* value);

  // observe_containers.cpp
  void Length(PyObject* value);
  void OwnLength(PyObject* value);
  void Truth(PyObject* value);
  void Combined(PyObject* value, PyObject* other);
  void Contains(PyObject* container, PyObject* item);
  void Subscript(PyObject* container, PyObject* key);
  void StoreSubscript(PyObject* container, PyObject* key, PyObject* value);
  void StoreItem(PyObject* container, PyObject* key, PyObject* value, const std::string& how);
  PythonRef Taken(std::string_view method, PyObject* from);
  std::optional<std::vector<PythonRef>> Operands(PyObject* container, const std::string& method,
                                                 PyObject* const* values, size_t count);
  void CheckMemory(PyObject* value);
  void ChangeInPlace(PyObject* object, PyObject* name, PyObject* operand);
  void Iterate(PyObject* value);
  void Next(PyObject* iterator);

  // observe_sizes.cpp
  static bool Flatten(PyObject* value, std::vector<PyObject*>& out, int depth = 0);
  static bool MaySaySizes(PyObject* tensor, PyObject* name);
  void SpecializeOn(PyObject* value);
  void SpecializeOnContent(PyObject* value);
  void NoteStrides(PyObject* tensor);
  void FixTensor(PyObject* tensor);
  void FixTensors(const std::vector<PythonRef>& tensors);
  void Propagate(PyObject* value);
  size_t AddPending(PendingResult pending);
  std::optional<SizeTerms::Term> TermOf(PyObject* value);
  size_t Follow(const Instruction& instruction);
  size_t FollowOne(const Instruction& instruction);
  static std::vector<PythonRef> Held(PyObject* one, PyObject* other = nullptr);
  size_t AwaitTerm(std::optional<SizeTerms::Term> term, std::initializer_list<PyObject*> of);
  size_t FollowBinary(const Instruction& instruction);
  void NoteCompared(int operation, SizeTerms::Term a, SizeTerms::Term b);
  void FollowCompare(const Instruction& instruction);
  void FollowIdentity(const Instruction& instruction);
  void MakePlain(PyObject*& value);

  // observe_size_calls.cpp
  size_t AddPendingOperator(std::string_view name, PyObject* const* values, size_t count, PyObject* keyword_names);
  size_t FollowPart(PyObject* tensor, PyObject* key, PyObject* value);
  size_t FollowCall(PyObject* callable, PyObject* const* values, size_t count, PyObject* keyword_names);
  size_t FollowNative(PyObject* callable, const std::vector<PyObject*>& values, size_t names, PyObject* keyword_names);
  size_t FollowExtreme(bool is_min, const std::vector<PyObject*>& values);
  size_t FollowFold(bool is_product, PyObject* value);

  // observe_size_results.cpp
  PyObject* FollowResult(size_t number, PyObject* result);
  PyObject* SizesOf(const PendingResult& pending, PyObject* result);
  void ExplainInts(const PendingResult& pending);
  struct PartSteps;
  void ExplainPart(const PendingResult& pending);
  bool ExplainKey(PyObject* tensor, PyObject* key, PartSteps steps);
  bool ExplainIndex(PyObject* index, PartSteps& steps);
  bool ExplainSlice(PyObject* tensor, int64_t dim, PyObject* slice, PartSteps& steps);
  void EndFollowing();

  // observe_numbers.cpp
  void TakePart(PyObject* a, PyObject* b);
  void FixNumber(PyObject* value);
  void FixNumbers(const std::vector<PyObject*>& flat);
  bool CompareFloats(int operation, PyObject* a, PyObject* b);
  size_t AwaitFloat(const Instruction& in);
  static std::optional<SizeTerms::Term> PowerOrShift(SizeTerms& sizes, int operation, SizeTerms::Term a,
                                                     SizeTerms::Term b);
  size_t FollowNumber(const Instruction& instruction);
  size_t FollowNumberBinary(const Instruction& instruction);
  size_t FollowNumberCall(const Instruction& instruction);
  size_t FollowRounding(PyObject* callable, PyObject* number);
  size_t FollowConversion(PyObject* type, PyObject* number);
  size_t FollowFunction(PyObject* callable, PyObject* number);
  size_t FollowExtremeNumber(const Instruction& instruction);
  void StandInCall(const Instruction& instruction, size_t at);
  size_t AwaitNumber(TensorNumbers::Op op, PyObject* a, PyObject* b);
  bool StandIn(PyObject*& slot, PyObject* beside, bool must_fit);

  // observe_addresses.cpp
  void NoteHashSeed();
  void Address(PyObject* value);
  void FindByAddress(PyObject* tensor);
  bool IsPassedByAddress(PyObject* value) const;
  void Display(const Instruction& display);
  void LookFor(PyObject* value, PyObject* container);
  void AsKey(PyObject* value);
  void AsKeys(PyObject* callable, const Arguments& arguments);
  void Hash(PyObject* value);
  void Order(PyObject* set);
  void NoteOrder(Number set);
  void InheritOrder(PyObject* set);
  void Text(PyObject* value);

  // observe_calls.cpp
  void TakeApart(PyObject* method);
  int Call(PyObject* callable, const Arguments& arguments);
  int CallType(PyTypeObject* type, const Arguments& arguments);
  int Construct(PyTypeObject* type, const Arguments& arguments);
  void LookUpConstruction(PyTypeObject* type);
  void CheckMakes(PyTypeObject* type);
  void State(PyObject* object);
  void NoteMaking(const Arguments& arguments);
  void NoteAbstract(PyTypeObject* type);
  void NoteFinalizer(PyTypeObject* type);
  int CallOther(PyObject* callable, const Arguments& arguments);
  void MatchKeys(PyObject* subject, PyObject* keys);
  int CallFromClass(PyObject* found, PyObject* object, const Arguments& arguments);
  struct Partial {
    PythonRef function, bound, named;
  };
  Partial TakeApartPartial(PyObject* partial);
  int CallPartial(PyObject* partial, const Arguments& arguments);
  void DeepAll(const Arguments& arguments, size_t from = 0);
  PythonRef PlainArguments(const Arguments& arguments);
  void Answer(PyObject* callable, const Arguments& arguments);
  void Getters(const Arguments& arguments);
  void GetBy(PyObject* getter, PyObject* subject);

  // observe_native.cpp
  void NoteContext(Number variable);
  void Print(const Arguments& arguments);
  int CallNative(PyObject* callable, const Arguments& arguments);
  ResultUse ResultUseOf(Effect effect, const Arguments& arguments) const;
  static bool HoldsObjects(PyObject* value, int depth = 0);
  void Change(PyObject* callable, const Arguments& arguments, bool reads);
  void NoteChange(Number number, const std::string& name, const std::vector<PyObject*>& values);

  // observe_effects.cpp
  struct NativeCall;
  int CallByEffect(PyObject* callable, const Arguments& arguments);
  void CallRefused(PyObject* callable);
  void CallIdentity(const NativeCall& call);
  void CallClass(const NativeCall& call);
  void CallRegistry(const NativeCall& call);
  void CallBases(const NativeCall& call);
  void CallBind(const NativeCall& call);
  void CallOperator(const NativeCall& call);
  void CallArray(const NativeCall& call);
  void CallMakeTensor(const NativeCall& call);
  void CallEscape(const NativeCall& call);
  void CallToList(const NativeCall& call);
  void CallApply(const NativeCall& call);
  void CallAttribute(const NativeCall& call);
  void CallOwnDict(const NativeCall& call);
  void CallGlobals();
  void CallItem(const NativeCall& call);
  void CallContent(const NativeCall& call);
  void CallFill(const NativeCall& call);
  void CallWhole(const NativeCall& call);
  void CallNext(const NativeCall& call);
  void CallQuestion(const NativeCall& call);
  void CallHash(const NativeCall& call);
  void CallText(const NativeCall& call);
  void CallContext(const NativeCall& call);
  void CallSetContext(const NativeCall& call);
  void CallLock(const NativeCall& call);
  void CallWarn(const NativeCall& call);
  void CallMode(const NativeCall& call);
  void CallImport(const NativeCall& call);
  void CallMakeClass(const Arguments& arguments);
  void CallAllocate(const NativeCall& call);
  int CallConstruct(const NativeCall& call);
  int CallSelf(const NativeCall& call);

  std::string own_;
  /// Calls that lead from one object's class to another object; refuses those without end.
  class Depth {
   public:
    explicit Depth(Observer& observer) : observer_(observer) {
      if (++observer_.call_depth_ >= kCallDepthMax)
        observer_.Refuse("call", "an object whose class calls others without end");
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --observer_.call_depth_; }

   private:
    static constexpr int kCallDepthMax = 64;
    Observer& observer_;
  };
  static constexpr int kTagBits = 8;  ///< of a result; above them the number of what is awaited
  static constexpr int kTagMask = (1 << kTagBits) - 1;
  SizeTerms sizes_;
  TensorNumbers numbers_;
  boost::unordered_flat_map<PyObject*, PythonRef> stood_for_;
  SizeFloats floats_{sizes_};
  bool follows_sizes_ = false;
  bool is_followed_ = false;  ///< the attribute that is loaded is awaited
  bool is_list_followed_ = false;  ///< the elements that `tolist` is about to give are
  const IntLog* int_log_ = nullptr;
  std::vector<PendingResult> pending_results_;
  size_t open_store_ = 0;  ///< number of a store that leaves no result
  std::vector<PyObject*> passed_on_;  ///< numbers that the instruction hands on unseen
  int call_depth_ = 0;
  std::vector<Number> merged_sets_;  ///< sets from before of which the run may have made others
  PyObject* consumer_ = nullptr;  ///< the native code that is handed what is looked at
  bool has_keywords_ = false;  ///< it is handed keywords
  ResultUse result_use_ = ResultUse::kNo;  ///< what it makes of what Python code gives it
  std::string asked_;  ///< the operator that was called by its own name
  bool awaits_length_ = false;  ///< its result is what `__len__` gives
  std::optional<SizeTerms::Term> given_length_;
  bool is_text_ = false;  ///< what is looked at is put into words
  bool may_find_ = false;  ///< is handed to native code that looks for elements, as `count` does
  bool is_compared_ = false;  ///< what is looked at is held against something else
  bool is_looked_for_ = false;  ///< in what is looked at, one value is: LookFor() tells what it meets
  bool is_unordered_ = false;  ///< what is looked at shows nobody the order of a set
  PyObject* frame_globals_ = nullptr;  ///< of the instruction that runs
  PyFunctionObject* frame_function_ = nullptr;
  PyObject* frame_builtins_ = nullptr;
  ObservedLog log_;
  std::vector<AwaitedAnswer> answers_;
  size_t writes_before_ = 0;  ///< the instruction that runs
  InstructionTrace trace_;
  MadeObjects made_;
  uint64_t instructions_max_ = 0;
  int classes_in_making_ = 0;  ///< class statements that have begun
  std::optional<Refused> refused_;
  std::vector<DependencyRow> read_before_refusal_;
  std::vector<std::string> missed_before_refusal_;
  /// What collections of garbage start is no part of the call in which they come: none come meanwhile.
  bool pauses_collections_ = false;
  Hooks hooks_;
  PythonRef touched_;
  PythonRef handled_before_;  ///< the exception that the caller handles
  PythonRef aliased_;  ///< whose `data` the instruction that runs gives
  boost::unordered_flat_map<PyObject*, CellOf> cells_;
  boost::unordered_flat_map<PyObject*, std::optional<Number>> globals_;  ///< globals -> module
  boost::unordered_flat_set<PyObject*> fresh_;  ///< functions and classes that the run has made
  using Pair = std::pair<const void*, const void*>;
  /// Looked at already, which says that nothing new can be learned there: functions that have been
  /// entered, (globals, name) and (outside object, attribute) since the last write, and (class, name)
  /// with the version of the class.
  boost::unordered_flat_set<PyObject*> entered_;
  std::vector<PythonRef> interrupts_;
  boost::unordered_flat_set<PyObject*> fixed_dicts_;  ///< of classes that nobody can change
  boost::unordered_flat_set<Pair> loaded_;
  size_t loaded_before_writes_ = 0;  ///< writes when loaded_ was right
  boost::unordered_flat_map<Pair, unsigned int> looked_up_;
  boost::unordered_flat_map<PyTypeObject*, unsigned int> looked_into_;  ///< classes, by version
  boost::unordered_flat_set<Number> bases_noted_;
  std::vector<PythonRef> held_;  ///< keeps what is known by address alive
  boost::unordered_flat_map<PyCodeObject*, FrameMode> modes_;
  boost::unordered_flat_map<Number, Digest>
      borrowed_contexts_;  ///< context variables that were set, with their values before
  boost::unordered_flat_set<PyObject*> context_values_;  ///< what the run has put into context variables
  PythonRef import_code_;
  PythonRef tensor_hash_;  ///< the code of Tensor.__hash__, once it has run
  boost::unordered_flat_map<PyObject*, int> locks_;  ///< how often each was taken, less how often it was given back
  std::vector<PythonRef> imports_to_come_;  ///< names that sys.modules lacked when they were imported
};

}  // namespace ingot::client
