// SPDX-License-Identifier: Apache-2.0
#include "client/native/log/object_path.h"

#include <charconv>

namespace ingot::client {

Result<ObjectPath> ObjectPath::Parse(std::string_view path, const PathReader& reader) {
  constexpr std::string_view kObject = "object:";
  ObjectPath out;
  size_t at = 0;
  if (path.starts_with(kObject)) {
    const char* begin = path.data() + kObject.size();
    const auto number = std::from_chars(begin, path.data() + path.size(), out.object_);
    if (number.ec != std::errc()) return Error(Code::kCorrupt, "path '" + std::string(path) + "' names no argument");
    at = static_cast<size_t>(number.ptr - path.data());
  } else {
    out.root_ = reader.Root(path, at);
    if (!out.root_) return Error(Code::kNotFound, "nothing is at the root of '" + std::string(path) + "'");
  }
  while (at < path.size()) {
    TRY_ASSIGN(Step step, PathReader::StepAt(path, at));
    out.steps_.push_back(std::move(step));
  }
  return out;
}

PyObject* ObjectPath::Follow(const std::vector<PyObject*>& objects) const {
  if (!root_ && object_ >= objects.size()) return nullptr;
  PlaceValue seen{PythonRef::Borrow(root_ ? root_.get() : objects[object_]), std::nullopt};
  for (const Step& step : steps_) {
    if (!seen.object) return nullptr;
    seen = LoadPlace(seen.object.get(), step.access, step.key.get());
  }
  return Py_XNewRef(seen.object.get());
}

int ObjectPath::Traverse(visitproc visit, void* arg) const {
  Py_VISIT(root_.get());
  return 0;
}

}  // namespace ingot::client
