// SPDX-License-Identifier: Apache-2.0
#include "client/native/bind/bind_recorder.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <boost/unordered/unordered_flat_set.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/lib/run/generator_state.h"
#include "client/native/cpython/exception_handlers.h"
#include "client/native/cpython/user_line.h"
#include "client/native/observe/moving_numbers.h"
#include "client/native/observe/observer.h"
#include "client/native/site/bindings.h"
#include "client/native/trace/kept_memory.h"
#include "client/native/trace/recorder.h"
#include "client/native/trace/user_kernel.h"
#include "proto/operator_space.h"

namespace ingot::client {
namespace {

namespace py = pybind11;

py::object TryConstant(Recorder& recorder, uint32_t value, size_t bytes_max) {
  const Status status = recorder.DeclareConstant(value, bytes_max);
  return status ? py::object(py::none()) : py::object(py::str(status.error().ToText()));
}

py::list ListForeigns(const Recorder& recorder) {
  py::list list;
  for (const Foreign& foreign : recorder.Foreigns()) {
    list.append(py::make_tuple(foreign.value, foreign.tensor, foreign.written));
  }
  return list;
}

py::bytes Finish(Recorder& recorder, const std::string& name, const std::vector<at::Tensor>& outputs) {
  Result<Buffer> buffer = recorder.Finish(name, outputs);
  if (!buffer) throw std::runtime_error(buffer.error().ToText());
  return py::bytes(reinterpret_cast<const char*>(buffer->data()), buffer->size());
}

/// A tensor that has the value of an integer made of sizes wherever the recording is run; null for any other.
PyObject* TensorOfSize(Recorder& recorder, Observer& observer, PyObject* value) {
  SizeTerms& sizes = observer.sizes();
  const auto term = sizes.Find(value);
  if (!term) return nullptr;
  const auto [made, entry] = recorder.NoteNumber(sizes.ValueOf(*term));
  if (!sizes.MayBeTensor(*term) || !entry || entry->value != sizes.ValueOf(*term)) {
    sizes.Fix(*term, observer.Where());
    return nullptr;
  }
  sizes.Explain(*entry, *term);
  sizes.BoundForTensor(*term, observer.Where());
  return THPVariable_Wrap(made);
}

void FollowSizes(Recorder& recorder, Observer& observer) {
  observer.FollowSizes(&recorder.int_log(), [&recorder](PyObject* tensor) -> std::optional<uint32_t> {
    return THPVariable_Check(tensor) ? recorder.ValueOf(THPVariable_Unpack(tensor)) : std::nullopt;
  });
  observer.numbers().Begin({[&recorder] { return recorder.TakeBackRead(); },
                            [&recorder](const std::function<void()>& run) { recorder.Noting(run); },
                            [&](PyObject* value) { return TensorOfSize(recorder, observer, value); },
                            [&](PyObject* value) {
                              if (const auto term = observer.sizes().Find(value))
                                observer.sizes().Fix(*term, observer.Where());
                            }});
}

/// A tensor whose last size is the integer wherever the recording is run, or None for an integer that has nothing to do
/// with sizes.
std::optional<at::Tensor> NoteSize(Recorder& recorder, Observer& observer, py::handle value) {
  SizeTerms& sizes = observer.sizes();
  const auto term = sizes.lost() ? std::nullopt : sizes.Find(value.ptr());
  if (!term || sizes.ValueOf(*term) < 0) return std::nullopt;
  const auto [made, entry] = recorder.NoteSize(sizes.ValueOf(*term));
  if (!entry || entry->value != sizes.ValueOf(*term)) return std::nullopt;
  sizes.Explain(*entry, *term);
  return made;
}

/// (path, number, its tensor) of each that the run has read; without integers where it lost count of sizes.
py::list ReadOf(const MovingNumbers& moving, Observer& observer) {
  boost::unordered_flat_set<PyObject*> read;
  for (const ObservedLog::Read& one : observer.log().reads()) read.insert(one.seen.object.get());
  py::list found;
  for (const MovingNumbers::One& one : moving.all()) {
    const bool is_lost = PyLong_CheckExact(one.made.get()) && observer.sizes().lost();
    if (!read.contains(one.made.get()) || is_lost) continue;
    found.append(py::make_tuple(one.path, py::reinterpret_borrow<py::object>(one.made.get()), one.tensor));
  }
  return found;
}

void NoteSizes(Recorder& recorder, Observer& observer) {
  if (auto notes = observer.sizes().Notes()) recorder.NoteSizes(std::move(*notes));
  observer.sizes().End();
}

void BindKeptMemory(py::module_& m) {
  py::class_<KeptMemory, std::shared_ptr<KeptMemory>>(m, "KeptMemory", "Copies of what tensors hold.")
      .def(py::init<size_t>(), py::arg("bytes_max"))
      .def("keep_before", &KeptMemory::KeepBefore, py::arg("tensor"))
      .def("is_written", &KeptMemory::IsWritten, py::arg("tensor"))
      .def("before", &KeptMemory::Before, py::arg("tensors"), "None beyond the limit.")
      .def("now", &KeptMemory::Now, py::arg("tensors"), "None beyond the limit.")
      .def_property_readonly("bytes", &KeptMemory::bytes)
      .def_property_readonly("is_over", &KeptMemory::is_over);
  m.def(
      "generator_number", [] { return GeneratorState().Number().ToHex(); },
      "Another after each number drawn from the default generator.");
  m.def(
      "mark_of", [](const std::vector<at::Tensor>& tensors) { return MarkOf(tensors).ToHex(); }, py::arg("tensors"),
      "Changes with what is in the tensors' memory, as far as versions and a few places tell.");
}

void BindOperators(py::module_& m) {
  m.def("register_kernel", [](const std::string& op, const std::string& library, const std::string& symbol) {
    Unwrap(RegisterUserKernel(op, library, symbol));
  });
  m.def(
      "is_foreign_operator",
      [](std::string_view op) { return proto::OperatorSpaceOf(op) == proto::OperatorSpace::kForeign; },
      "Whether an operator comes from outside PyTorch.");
}

/// Its caller's frame runs until the recording stops, so that its address is no other's.
void Start(Recorder& recorder) {
  recorder.AskForHandlers([outermost = PyEval_GetFrame()] {
    const py::gil_scoped_acquire held;
    return HandlerInside(outermost);
  });
  recorder.Start();
}

void BindRecordedRun(py::class_<Recorder>& type) {
  type.def("survey",
           [](Recorder& recorder, py::function on_value) {
             recorder.Survey([on_value = std::move(on_value)] {
               const py::gil_scoped_acquire held;
               on_value();
             });
           })
      .def(
          "keep_before_writes",
          [](Recorder& recorder, std::shared_ptr<KeptMemory> memory) {
            recorder.TellOfWrites(
                [memory = std::move(memory)](const at::Tensor& tensor) { memory->KeepBefore(tensor); });
          },
          py::arg("memory"), "Before the run: what is written and was there before is kept.")
      .def("start", &Start)
      .def("stop", &Recorder::Stop)
      .def("complete_if_kept", &Recorder::CompleteIfKept)
      .def("refuse", &Recorder::Refuse, py::arg("name"), py::arg("detail"))
      .def_property_readonly("recording", &Recorder::recording)
      .def_property_readonly("refusal",
                             [](const Recorder& recorder) -> py::object {
                               const auto& refusal = recorder.refusal();
                               if (!refusal) return py::none();
                               return py::make_tuple(refusal->name, refusal->detail);
                             })
      .def_property_readonly("step_count", &Recorder::step_count)
      .def_property_readonly("makes_uninitialized", &Recorder::MakesUninitialized,
                             "Whether an operator gave memory as it was.");
}

/// What the tensors of a recording are.
void BindRecordedTensors(py::class_<Recorder>& type) {
  type.def("declare_input", &Recorder::DeclareInput, py::arg("tensor"), py::arg("name"))
      .def("declare_group", &Recorder::DeclareGroup, py::arg("name"), py::arg("identity"))
      .def_property_readonly("groups", &Recorder::Groups)
      .def("foreigns", &ListForeigns, "(value, tensor, written) in order of first use.")
      .def("note_alias", &Recorder::NoteAlias, py::arg("tensor"), py::arg("alias"))
      .def("note_output", &Recorder::NoteOutput, py::arg("tensor"))
      .def("declare_weight", &Recorder::DeclareWeight, py::arg("value"), py::arg("name"))
      .def("declare_fetched", &Recorder::DeclareFetched, py::arg("value"), py::arg("name"))
      .def("declare_constant", &TryConstant, py::arg("value"), py::arg("bytes_max"),
           "None, or why the tensor cannot be a constant.")
      .def("value_of", &Recorder::ValueOf, py::arg("tensor"))
      .def("finish", &Finish, py::arg("name"), py::arg("outputs"))
      .def(
          "foreign_operators",
          [](const Recorder& recorder) {
            py::list found;
            for (const auto& [name, is_before_decision, modes] : recorder.ForeignOperators())
              found.append(py::make_tuple(name, is_before_decision, modes));
            return found;
          },
          "(name, whether a value that is held against later calls' comes behind it, modes of autograd) of those that "
          "are not "
          "PyTorch's.");
}

void BindRecordedSizes(py::class_<Recorder>& type) {
  type.def("follow_sizes", &FollowSizes, py::arg("observer"), py::keep_alive<2, 1>(),
           "Before the run: its observer follows what Python computes with sizes.")
      .def("note_size", &NoteSize, py::arg("observer"), py::arg("value"),
           "After the run: a tensor whose last size is the integer in every call, or None where it is the same in all.")
      .def("note_sizes", &NoteSizes, py::arg("observer"),
           "After the run, before finish(): what the observer has followed.");
}

void BindMovingNumbers(py::module_& m) {
  py::class_<MovingNumbers>(m, "MovingNumbers", "Numbers of the program's state that its calls change.")
      .def(py::init<>())
      .def(
          "put",
          [](MovingNumbers& moving, const std::vector<std::string>& paths, const py::dict& roots, Observer& observer) {
            PathReader reader(NamedRoots(roots));
            for (const std::string& path : paths) moving.Put(path, reader, observer);
          },
          py::arg("paths"), py::arg("roots"), py::arg("observer"), "Before the run, whose observer follows sizes.")
      .def("take_back", &MovingNumbers::TakeBack, "After the run.")
      .def(
          "own",
          [](MovingNumbers& moving, py::handle value, const at::Tensor& tensor, const std::string& name,
             Observer& observer) {
            const PythonRef made = moving.Own(value.ptr(), tensor, name, observer);
            return py::reinterpret_borrow<py::object>(made ? made.get() : value.ptr());
          },
          "Before the run: the number that stands for an argument's, whose tensor is an input.")
      .def(
          "is_fixed",
          [](const MovingNumbers& moving, py::handle own, Observer& observer) {
            return moving.IsFixed(own.ptr(), observer);
          },
          "After the run: whether something has looked at what own() gave, so that it is no other call's.")
      .def("read_by", &ReadOf, py::arg("observer"), "(path, number, its tensor) of those that the run has read.");
  m.def(
      "tensor_of_number", [](py::handle value) { return MovingNumbers::TensorOf(value.ptr()); }, py::arg("value"),
      "What calls make of such a number; None of any other object.");
}

}  // namespace

void BindRecorder(py::module_& m) {
  Recorder::Prepare();
  BindKeptMemory(m);
  BindOperators(m);
  py::class_<Recorder> type(m, "Recorder", "Notes the operators of one call on this thread.");
  type.def(py::init([](std::optional<int64_t> deferred_above) {
             return std::make_unique<Recorder>(deferred_above, WithUserLine);
           }),
           py::arg("deferred_above") = py::none());
  BindRecordedRun(type);
  BindRecordedTensors(type);
  BindRecordedSizes(type);
  BindMovingNumbers(m);
}

}  // namespace ingot::client
