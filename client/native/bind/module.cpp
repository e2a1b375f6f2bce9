// SPDX-License-Identifier: Apache-2.0
#include "client/native/bind/bind_observer.h"
#include "client/native/cpython/background_thread.h"
#include "client/native/cpython/compiled.h"
#include "client/native/site/bindings.h"
#include "client/native/site/call_site.h"
#include "client/native/site/compiled_module.h"
#include "client/native/site/unserved_calls.h"

PYBIND11_MODULE(_native, m) {
  using namespace ingot::client;
  namespace py = pybind11;
  m.doc() = "The native half of Ingot: recorder, executor, call sites and the daemon's client.";
  BindErrors(m);
  BindState(m);
  BindRecorder(m);
  BindGuards(m);
  BindProgram(m);
  BindMeasurement(m);
  BindExported(m);
  BindRecord(m);
  BindObserver(m);
  BindConnection(m);
  if (AddCompiledType(m.ptr()) != 0 || AddCallSiteType(m.ptr()) != 0 || AddCompiledModuleType(m.ptr()) != 0) {
    throw py::error_already_set();
  }
  m.def("enter_background", &BackgroundThread::Enter,
        "This thread of Ingot's runs Python from now on; False when it must not.");
  m.def("leave_background", &BackgroundThread::Leave);
  m.def("step_out_background", &BackgroundThread::StepOut,
        "The calling thread is about to wait for something; whether it is one of Ingot's.");
  m.def("step_in_background", &BackgroundThread::StepIn, "It has waited. Does not return while the process is ending.");
  m.def(
      "end_background",
      [](double seconds) {
        return BackgroundThread::End(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
      },
      "Lets none of Ingot's threads begin any more; whether those that ran Python were out in time.");
  m.def(
      "forget_background",
      [] {
        BackgroundThread::Forget();
        UnservedCall::Forget();
      },
      "In a child process.");
  m.def(
      "pause_s", [] { return std::chrono::duration<double>(UnservedCall::Pause()).count(); },
      "For how many seconds no call has been under way that native code does not serve.");
  m.def(
      "target_of",
      [](const py::object& value) {
        PyObject* target = CompiledTarget(value.ptr());
        return target == nullptr ? value : py::reinterpret_borrow<py::object>(target);
      },
      "What a compiled callable wraps; anything else is given back.");
  m.def(
      "call",
      [](const py::object& callable, const py::tuple& args, const py::dict& kwargs, bool in_parts) {
        const InParts scope(in_parts);
        return callable(*args, **kwargs);
      },
      "callable(*args, **kwargs), in which parts that are called are served natively or are what they stand for.");
  m.def(
      "engine_of",
      [](const py::object& value) {
        PyObject* site = SiteOf(value.ptr());
        return site == nullptr ? py::none() : py::reinterpret_borrow<py::object>(EngineOf(site));
      },
      "The engine of a compiled callable, None for anything else.");
}
