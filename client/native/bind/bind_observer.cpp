// SPDX-License-Identifier: Apache-2.0
#include "client/native/bind/bind_observer.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/instruction.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/user_line.h"
#include "client/native/effects/effect_table.h"
#include "client/native/log/dependency_record.h"
#include "client/native/log/identity_check.h"
#include "client/native/observe/observer.h"
#include "client/native/places/torch_ops.h"

namespace ingot::client {
namespace {

namespace py = pybind11;

/// (holder, path of the holder, what, values, line) of each change, in order.
py::list Writes(const Observer& observer) {
  py::list list;
  for (const ObservedLog::Write& write : observer.log().writes()) {
    list.append(py::make_tuple(py::handle(observer.log().At(write.holder)), observer.log().PathOf(write.holder),
                               write.name, py::handle(write.values.get()), write.line.ToText()));
  }
  return list;
}

py::object PathOf(const Observer& observer, py::handle value) {
  const auto number = observer.log().Find(value.ptr());
  if (!number || observer.log().PathOf(*number).empty()) return py::none();
  return py::str(observer.log().PathOf(*number));
}

/// Calls a hook. What goes wrong in it is no matter of the program's; a recorder that has not heard
/// of something cannot stand for the run.
template <typename... Arguments>
void Tell(Observer& o, const py::function& hook, const Arguments&... arguments) {
  try {
    hook(arguments...);
  } catch (py::error_already_set& e) {
    o.Refuse("internal", std::string("the recorder could not be told: ") + e.what());
    e.restore();
    DropError();
  }
}

void BindObservedRun(py::class_<Observer>& type) {
  type.def("add_root",
           [](Observer& o, py::handle object, const std::string& path) {
             // Which object is passed may change from call to call.
             const bool is_passed = path.starts_with("object:");
             const auto number = o.log().AddRoot(object.ptr(), path);
             if (is_passed) o.log().NoteField(number, "kind");
           })
      .def("add_argument", [](Observer& o, py::handle object) { o.log().AddArgument(object.ptr()); })
      .def("start",
           [](Observer& o, py::handle target, uint64_t instructions_max) {
             const Status status = o.Start(target.ptr(), instructions_max);
             if (!status) o.Refuse("traced", status.error().message());
           })
      .def("stop", &Observer::Stop)
      .def("refuse", &Observer::Refuse)
      .def_property_readonly("touched",
                             [](const Observer& o) {
                               PyObject* const found = o.touched() == nullptr ? Py_None : o.touched();
                               return py::reinterpret_borrow<py::object>(found);
                             })
      .def_property_readonly("refused",
                             [](const Observer& o) -> py::object {
                               if (o.refused()) return py::make_tuple(o.refused()->name, o.refused()->detail);
                               if (const std::string problem = o.log().ProblemOfAll(); !problem.empty())
                                 return py::make_tuple(o.log().problem_kind(), problem);
                               return py::none();
                             })
      .def_property_readonly("instructions", &Observer::instruction_count);
}

/// Whom the run tells of what happens in it, and whose code is no part of it.
void BindObserverHooks(py::class_<Observer>& type) {
  type.def(
          "set_hooks",
          [](Observer& o, const py::function& refuse, const py::function& escape, const py::function& list,
             const py::function& alias) {
            const auto named = [&o](const py::function& hook) {
              return [&o, hook](const Observer::Refused& refused) { Tell(o, hook, refused.name, refused.detail); };
            };
            const auto borrowed = [](PyObject* object) { return py::reinterpret_borrow<py::object>(object); };
            o.set_hooks({named(refuse), named(escape),
                         [&o, list, borrowed](PyObject* tensor) { Tell(o, list, borrowed(tensor)); },
                         [&o, alias, borrowed](PyObject* tensor, PyObject* made) {
                           Tell(o, alias, borrowed(tensor), borrowed(made));
                         }});
          },
          py::arg("refuse"), py::arg("escape"), py::arg("list"), py::arg("alias"),
          "What the recorder of the same run is told.")
      .def(
          "set_interrupts",
          [](Observer& o, const std::vector<py::object>& codes) {
            std::vector<PythonRef> held;
            for (const py::object& code : codes) held.push_back(PythonRef::Borrow(code.ptr()));
            o.set_interrupts(std::move(held));
          },
          py::arg("codes"), "Code objects of what handles signals: a call in which one runs is not recorded.");
}

void BindObservedSizes(py::class_<Observer>& type) {
  type.def(
          "number_tensor",
          [](Observer& o, py::handle value) -> py::object {
            PyObject* tensor = o.numbers().TensorOf(value.ptr());
            return tensor == nullptr ? py::none() : py::reinterpret_borrow<py::object>(tensor);
          },
          py::arg("value"),
          "After the run: a tensor whose element the number is in every call, or None where it came out of none.")
      .def(
          "fix", [](Observer& o, py::handle value) { o.FixValue(value.ptr()); },
          "An integer becomes part of what every call does, as it is.")
      .def(
          "fix_size",
          [](Observer& o, py::handle tensor, int64_t dim, int64_t size) {
            const auto term = o.sizes().OfTensor(SizeTerms::Op::Size, tensor.ptr(), dim, size);
            o.sizes().Fix(term, "what the caller has declared");
          },
          py::arg("tensor"), py::arg("dim"), py::arg("size"), "Before the run: every call of it has this size there.");
}

/// What the run has read and written.
void BindObservedLog(py::class_<Observer>& type) {
  type.def("path_of", &PathOf, "The path of an object from before, or None.")
      .def(
          "set_fetched",
          [](Observer& o, const std::vector<py::object>& tensors, const std::vector<py::object>& given_on,
             const std::unordered_set<std::string>& moving) {
            const auto pointers = [](const std::vector<py::object>& objects) {
              std::vector<PyObject*> found;
              for (const py::object& object : objects) found.push_back(object.ptr());
              return found;
            };
            o.log().SetFetched(pointers(tensors), pointers(given_on), moving);
          },
          "Tensors that every call finds where the run did, whichever they are then; what the run gives on as itself; "
          "the "
          "places that move.")
      .def("is_argument", [](const Observer& o, py::handle value) { return o.log().IsArgument(value.ptr()); })
      .def("writes", &Writes)
      .def("note_orders", &Observer::InheritedOrders, "A set that the run has made is a part of what it gives out.");
}

void BindObservedRecord(py::class_<Observer>& type) {
  type.def(
          "settle", [](Observer& o) { return o.log().Settle(); },
          "After the run: false when a place does not hold any more what was read there.")
      .def(
          "moved",
          [](const Observer& o) {
            py::list found;
            for (const ObservedLog::Moved& one : o.log().moved())
              found.append(py::make_tuple(one.path, one.was ? one.was->ToHex() : std::string(), one.may_be_fetched));
            return found;
          },
          "After settle(): (path, digest of what was read or \"\" where it was fetched, whether calls could fetch what "
          "is there now) of places that hold something else.")
      .def_property_readonly("fingerprint", [](const Observer& o) { return o.log().Fingerprint().ToHex(); })
      .def("record",
           [](const Observer& o,
              const std::vector<std::tuple<std::string, std::string, std::string, std::string>>& more) {
             std::vector<DependencyRow> rows = DependencyRecord::Of(o.log()).rows();
             for (const auto& [kind, where, hex, text] : more) {
               const auto digest = Digest::FromHex(hex);
               if (!digest) throw py::value_error("a digest is 32 hex digits");
               rows.push_back({kind, where, *digest, text});
             }
             return DependencyRecord(std::move(rows));
           })
      .def_property_readonly(
          "read_before_refusal", [](const Observer& o) { return DependencyRecord(o.read_before_refusal()); },
          "What a refused run had read, but for what it had changed itself.")
      .def_property_readonly("missed_before_refusal", &Observer::missed_before_refusal,
                             "What a refused run had tried to import, and is not there.")
      .def(
          "identity_fault",
          [](const Observer& o, const DependencyRecord& record) { return FindIdentityFault(o.log(), record); },
          py::arg("record"), "What it leaves unsaid of which places led to one object, in words; or None.");
}

void BindNativeTables(py::module_& m) {
  m.def("mark_pure", [](py::handle callable) { EffectTable::Shared().MarkPure(callable.ptr()); });
  m.def("marked_pure", [] { return EffectTable::Shared().MarkedPure(); });
  m.def("user_line", &UserLine,
        "`serve.py:20`: where the program called what runs now; empty where no frame is a user's.");
  m.def("effect_of_name", [](const std::string& name) { return static_cast<int>(EffectOfName(name)); });
  m.def(
      "instr_kind_of", [](int opcode) { return static_cast<int>(InstrKindOf(opcode)); },
      "What the table of this version of Python says of an opcode; 0: nothing.");
}

}  // namespace

void BindObserver(py::module_& m) {
  RememberOperatorTypes();
  py::class_<Observer> type(m, "Observer", "Sees every instruction of one call on this thread.");
  type.def(py::init<std::string>(), py::arg("own"));
  BindObservedRun(type);
  BindObserverHooks(type);
  BindObservedSizes(type);
  BindObservedLog(type);
  BindObservedRecord(type);
  BindNativeTables(m);
}

}  // namespace ingot::client
