// SPDX-License-Identifier: Apache-2.0
#include "client/native/profiler.h"

#include <algorithm>
#include <array>

#include "client/native/meta_results.h"

namespace ingot::client {
namespace {

std::string_view ViewOf(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return {};
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) PyErr_Clear();
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, size);
}

/// The directory of a loaded package, with a slash at its end; empty when it is not loaded.
std::string DirectoryOf(const char* package) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), package);
  const PythonRef file(module ? PyObject_GetAttrString(module, "__file__") : nullptr);
  PyErr_Clear();
  const std::string_view path = ViewOf(file.get());
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string() : std::string(path.substr(0, slash + 1));
}

PythonRef ImportCode() {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "_frozen_importlib");
  const PythonRef function(module ? PyObject_GetAttrString(module, "_find_and_load") : nullptr);
  PythonRef code(function ? PyObject_GetAttrString(function.get(), "__code__") : nullptr);
  PyErr_Clear();
  return code;
}

PythonRef CodeOf(PyFrameObject* frame) {
  return PythonRef(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
}

PythonRef ModuleNameOf(PyFrameObject* frame) {
  const PythonRef globals(PyFrame_GetGlobals(frame));
  PyObject* name = PyDict_GetItemString(globals.get(), "__name__");
  return PythonRef::Borrow(name != nullptr ? name : Py_None);
}

/// Packages that read clocks and files only to write messages.
bool WritesMessages(std::string_view module) {
  static constexpr std::array<std::string_view, 5> kPackages = {"logging", "warnings", "linecache",
                                                                "tokenize", "traceback"};
  const std::string_view top = module.substr(0, module.find('.'));
  return std::find(kPackages.begin(), kPackages.end(), top) != kPackages.end();
}

}  // namespace

Profiler::Profiler(std::vector<std::string> skip) : skip_(std::move(skip)) {
  self_ = PythonRef(PyCapsule_New(this, "ingot.Profiler", nullptr));
}

Profiler::~Profiler() { Stop(); }

Status Profiler::Start() {
  if (running_) return Error(Code::kInvalid, "the profiler is running already");
  for (const char* package : {"torch", "ingot"}) {
    std::string directory = DirectoryOf(package);
    if (!directory.empty()) skip_.push_back(std::move(directory));
  }
  calls_.Prepare();
  codes_.clear();
  skipped_.clear();
  seen_.clear();
  impure_.clear();
  import_depth_ = 0;
  import_code_ = ImportCode();
  numpy_state_ = NumpyState();
  const PyThreadState* thread = PyThreadState_Get();
  earlier_ = thread->c_profilefunc;
  earlier_object_ = PythonRef::Borrow(thread->c_profileobj);
  running_ = true;
  PyEval_SetProfile(&Profiler::OnEvent, self_.get());
  return {};
}

void Profiler::Stop() {
  if (!running_) return;
  running_ = false;
  const PyThreadState* thread = PyThreadState_Get();
  if (thread->c_profilefunc == &Profiler::OnEvent && thread->c_profileobj == self_.get()) {
    PyEval_SetProfile(earlier_, earlier_object_.get());
  } else {
    AddImpure("sys.setprofile");
  }
  earlier_ = nullptr;
  earlier_object_ = PythonRef();
  // Empty: numpy.random was loaded by the call itself, and being loaded seeds it.
  if (!numpy_state_.empty() && NumpyState() != numpy_state_) AddImpure("numpy.random");
}

int Profiler::OnEvent(PyObject* self, PyFrameObject* frame, int what, PyObject* argument) {
  auto* profiler = static_cast<Profiler*>(PyCapsule_GetPointer(self, "ingot.Profiler"));
  if (profiler->running_ && !MetaKernels::IsAsking()) {
    switch (what) {
      case PyTrace_CALL: profiler->OnCall(frame); break;
      case PyTrace_RETURN: profiler->OnReturn(frame); break;
      case PyTrace_C_CALL: profiler->OnNativeCall(frame, argument); break;
      default: break;
    }
  }
  if (profiler->earlier_ == nullptr) return 0;
  return profiler->earlier_(profiler->earlier_object_.get(), frame, what, argument);
}

void Profiler::OnCall(PyFrameObject* frame) {
  const PythonRef code = CodeOf(frame);
  if (code.get() == import_code_.get()) ++import_depth_;
  if (import_depth_ > 0) return;
  auto* object = reinterpret_cast<PyCodeObject*>(code.get());
  if (!seen_.contains(object)) AddCode(frame, object);
}

void Profiler::OnReturn(PyFrameObject* frame) {
  if (import_depth_ > 0 && CodeOf(frame).get() == import_code_.get()) --import_depth_;
}

void Profiler::OnNativeCall(PyFrameObject* frame, PyObject* function) {
  if (import_depth_ > 0 || function == nullptr || !PyCFunction_Check(function)) return;
  const std::string* name = calls_.Find(function);
  if (name == nullptr) return;
  const PythonRef module = ModuleNameOf(frame);
  if (!WritesMessages(ViewOf(module.get()))) AddImpure(*name);
}

void Profiler::AddCode(PyFrameObject* frame, PyCodeObject* code) {
  seen_.insert(code);
  const std::string_view file = ViewOf(code->co_filename);
  PythonRef held = PythonRef::Borrow(reinterpret_cast<PyObject*>(code));
  if (!IsSkipped(file)) {
    codes_.push_back({std::move(held), ModuleNameOf(frame)});
    return;
  }
  skipped_.push_back(std::move(held));
  // Code that torch.compile made computes behind the dispatcher's back.
  if (file.ends_with("/torch/_dynamo/eval_frame.py") && ViewOf(code->co_name) == "compile_wrapper") {
    AddImpure("torch.compile");
    if (!on_compile_) return;
    const PythonRef result(PyObject_CallNoArgs(on_compile_.get()));
    if (!result) PyErr_WriteUnraisable(on_compile_.get());
  }
}

bool Profiler::IsSkipped(std::string_view file) const {
  return std::any_of(skip_.begin(), skip_.end(),
                     [&](const std::string& directory) { return file.starts_with(directory); });
}

void Profiler::AddImpure(const std::string& name) {
  if (std::find(impure_.begin(), impure_.end(), name) == impure_.end()) impure_.push_back(name);
}

// numpy's functions are Cython methods, which the hook does not see; its global generator is
// compared before and after instead.
std::string Profiler::NumpyState() const {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy.random");
  if (module == nullptr) return {};
  const PythonRef state(PyObject_CallMethod(module, "get_state", nullptr));
  std::string text;
  if (state && PyTuple_Check(state.get()) && PyTuple_GET_SIZE(state.get()) >= 3) {
    const PythonRef words(PyObject_CallMethod(PyTuple_GET_ITEM(state.get(), 1), "tobytes", nullptr));
    if (words && PyBytes_Check(words.get())) {
      text.assign(PyBytes_AS_STRING(words.get()), PyBytes_GET_SIZE(words.get()));
    }
    text += std::to_string(PyLong_AsLong(PyTuple_GET_ITEM(state.get(), 2)));
  }
  PyErr_Clear();
  return text;
}

}  // namespace ingot::client
