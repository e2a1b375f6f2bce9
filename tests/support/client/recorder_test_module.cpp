// SPDX-License-Identifier: Apache-2.0
// What a recording says, what archives make of numbers, and which operators they may name, for tests in Python.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>

#include "client/archive/scalar_ops.h"
#include "client/lib/run/admitted_operator.h"
#include "proto/graph_generated.h"

namespace {

namespace py = pybind11;
namespace proto = ingot::proto;

py::object DecodeArg(const proto::ArgT& arg) {
  using proto::ArgKind;
  switch (arg.kind) {
    case ArgKind::None: return py::none();
    case ArgKind::Bool: return py::bool_(arg.ints.at(0) != 0);
    case ArgKind::Int: return py::int_(arg.ints.at(0));
    case ArgKind::Float: return py::float_(arg.floats.at(0));
    case ArgKind::String: return py::str(arg.text);
    case ArgKind::FloatList: return py::cast(arg.floats);
    case ArgKind::IntList: return py::cast(arg.ints);
    case ArgKind::Number:
      if (arg.number_kind == 2) return py::make_tuple("number", arg.floats.at(0));
      if (arg.number_kind == 1) return py::make_tuple("number", arg.ints.at(0));
      return py::make_tuple("number", py::bool_(arg.ints.at(0) != 0));
    case ArgKind::Value: return py::make_tuple("value", arg.ints.at(0));
    case ArgKind::DType:
      return py::make_tuple("dtype", proto::EnumNameDType(static_cast<proto::DType>(arg.ints.at(0))));
    case ArgKind::ValueList: return py::make_tuple("values", py::cast(arg.ints));
    case ArgKind::BoolList: return py::make_tuple("bools", py::cast(arg.ints));
  }
  throw std::runtime_error("unknown argument kind");
}

py::list DecodeArgs(const std::vector<std::unique_ptr<proto::ArgT>>& args) {
  py::list list;
  for (const auto& arg : args) list.append(DecodeArg(*arg));
  return list;
}

py::dict DecodeStep(const proto::StepT& step) {
  py::dict out;
  out["op"] = step.op;
  out["args"] = DecodeArgs(step.args);
  out["results"] = DecodeArgs(step.results);
  out["writes"] = std::vector<int>(step.writes.begin(), step.writes.end());
  out["is_view"] = step.is_view;
  out["is_random"] = step.is_random;
  out["is_dynamic_shape"] = step.is_dynamic_shape;
  out["is_opaque"] = step.is_opaque;
  out["eager_ns"] = step.eager_ns;
  return out;
}

/// A recording as plain Python objects, after the FlatBuffers verifier has accepted it.
py::dict Decode(const std::string& bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!proto::VerifyRecordingBuffer(verifier)) throw std::runtime_error("not a recording");
  const auto recording = proto::UnPackRecording(bytes.data());
  py::dict out;
  out["name"] = recording->name;
  py::list values, sources, steps;
  for (const auto& meta : recording->values) {
    values.append(py::dict(py::arg("dtype") = proto::EnumNameDType(meta->dtype), py::arg("sizes") = meta->sizes,
                           py::arg("strides") = meta->strides, py::arg("offset") = meta->offset,
                           py::arg("storage") = meta->storage));
  }
  for (const auto& source : recording->sources) {
    const std::string data(source->data.begin(), source->data.end());
    sources.append(py::dict(py::arg("value") = source->value, py::arg("kind") = proto::EnumNameSourceKind(source->kind),
                            py::arg("name") = source->name, py::arg("data") = py::bytes(data)));
  }
  for (const auto& step : recording->steps) steps.append(DecodeStep(*step));
  out["values"] = values;
  out["sources"] = sources;
  out["steps"] = steps;
  out["outputs"] = recording->outputs;
  out["eager_ns"] = recording->eager_ns;
  return out;
}

/// The result, or the text of the error.
py::object EvaluateScalar(const std::string& target, const py::args& args) {
  std::vector<c10::IValue> values;
  for (const py::handle one : args) {
    if (py::isinstance<py::bool_>(one))
      values.emplace_back(one.cast<bool>());
    else if (py::isinstance<py::int_>(one))
      values.emplace_back(one.cast<int64_t>());
    else
      values.emplace_back(one.cast<double>());
  }
  const auto result = ingot::client::EvaluateScalar(target, values);
  if (!result) return py::str(result.error().ToText());
  if (result->isBool()) return py::bool_(result->toBool());
  if (result->isInt()) return py::int_(result->toInt());
  return py::float_(result->toDouble());
}

/// Why a stranger may not name an operator; empty: he may. `by_archive`: in an archive, else in a recording.
std::string WhyNotAdmitted(const std::string& name, const std::string& overload, bool by_archive) {
  using ingot::client::NamedBy;
  return ingot::client::WhyNotAdmitted(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str()),
                                       by_archive ? NamedBy::kArchive : NamedBy::kPlan);
}

}  // namespace

PYBIND11_MODULE(_native_recorder_test, m) {
  m.def("decode", &Decode);
  m.def("evaluate_scalar", &EvaluateScalar);
  m.def("why_not_admitted", &WhyNotAdmitted);
}
