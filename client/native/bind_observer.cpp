// SPDX-License-Identifier: Apache-2.0
#include "client/native/bind_observer.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "client/native/callables.h"
#include "client/native/instruction.h"
#include "client/native/observer.h"
#include "client/native/origin.h"
#include "client/native/record.h"

namespace ingot::client {
namespace {

namespace py = pybind11;

/// (holder, path of the holder, what, values, line) of each change, in order.
py::list Writes(const Observer& observer) {
  py::list list;
  for (const ObservedLog::Write& write : observer.log().writes()) {
    list.append(py::make_tuple(py::handle(observer.log().At(write.holder)),
                               observer.log().PathOf(write.holder), write.name,
                               py::handle(write.values.get()), write.line.ToText()));
  }
  return list;
}

py::object PathOf(const Observer& observer, py::handle value) {
  const auto number = observer.log().Find(value.ptr());
  if (!number || observer.log().PathOf(*number).empty()) return py::none();
  return py::str(observer.log().PathOf(*number));
}

}  // namespace

void BindObserver(py::module_& m) {
  py::class_<Observer>(m, "Observer", "Sees every instruction of one call on this thread.")
      .def(py::init<std::string>(), py::arg("own"))
      .def("add_root",
           [](Observer& o, py::handle object, std::string path) {
             // Which object is passed may change from call to call.
             const bool is_passed = path.starts_with("object:");
             const auto number = o.log().AddRoot(object.ptr(), std::move(path));
             if (is_passed) o.log().NoteField(number, "kind");
           })
      .def("add_argument",
           [](Observer& o, py::handle object) { o.log().AddArgument(object.ptr()); })
      .def("start",
           [](Observer& o, py::handle target, uint64_t instructions_max) {
             const Status status = o.Start(target.ptr(), instructions_max);
             if (!status) o.Refuse("traced", status.error().message());
           })
      .def("stop", &Observer::Stop)
      .def("refuse", &Observer::Refuse)
      .def("set_on_refuse",
           [](Observer& o, const py::function& callback) {
             o.set_on_refuse([callback](const Observer::Refused& refused) {
               try {
                 callback(refused.name, refused.detail);
               } catch (py::error_already_set& e) {
                 e.discard_as_unraisable("ingot.Observer");
               }
             });
           })
      .def_property_readonly("refused",
                             [](const Observer& o) -> py::object {
                               if (o.refused())
                                 return py::make_tuple(o.refused()->name, o.refused()->detail);
                               if (!o.log().problem().empty())
                                 return py::make_tuple("side-effect", o.log().problem());
                               return py::none();
                             })
      .def_property_readonly("instructions", &Observer::instruction_count)
      .def("path_of", &PathOf, "The path of an object from before, or None.")
      .def("is_argument",
           [](const Observer& o, py::handle value) { return o.log().IsArgument(value.ptr()); })
      .def("writes", &Writes)
      .def("rows",
           [](const Observer& o) {
             py::list list;
             const Record record = Record::Of(o.log());
             for (const RecordRow& row : record.rows())
               list.append(py::make_tuple(row.kind, row.where, row.digest.ToHex(), row.text));
             return list;
           })
      .def("record",
           [](const Observer& o,
              const std::vector<std::tuple<std::string, std::string, std::string, std::string>>&
                  more) {
             std::vector<RecordRow> rows = Record::Of(o.log()).rows();
             for (const auto& [kind, where, hex, text] : more) {
               const auto digest = Digest::FromHex(hex);
               if (!digest) throw py::value_error("a digest is 32 hex digits");
               rows.push_back({kind, where, *digest, text});
             }
             return Record(std::move(rows));
           });
  m.def("mark_pure", [](py::handle callable) { Callables::Shared().MarkPure(callable.ptr()); });
  m.def("effect_of_name",
        [](const std::string& name) { return static_cast<int>(EffectOfName(name)); });
  m.def(
      "act_of", [](int opcode) { return static_cast<int>(ActOf(opcode)); },
      "What the table of this version of Python says of an opcode; 0: nothing.");
}

}  // namespace ingot::client
