// SPDX-License-Identifier: Apache-2.0
#include "client/native/bind_observer.h"
#include "client/native/bindings.h"
#include "client/native/call_site.h"

PYBIND11_MODULE(_native, m) {
  using namespace ingot::client;
  m.doc() = "The native half of Ingot: recorder, executor, call sites and the daemon's client.";
  BindErrors(m);
  BindState(m);
  BindRecorder(m);
  BindGuards(m);
  BindProgram(m);
  BindExported(m);
  BindRecord(m);
  BindObserver(m);
  BindConnection(m);
  if (AddCompiledType(m.ptr()) != 0) throw pybind11::error_already_set();
}
