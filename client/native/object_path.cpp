// SPDX-License-Identifier: Apache-2.0
#include "client/native/object_path.h"

#include <charconv>

namespace ingot::client {

Result<ObjectPath> ObjectPath::Parse(std::string_view path) {
  constexpr std::string_view kRoot = "object:";
  ObjectPath out;
  const char* begin = path.data() + kRoot.size();
  const auto number = path.starts_with(kRoot) ? std::from_chars(begin, path.data() + path.size(), out.object_)
                                              : std::from_chars_result{nullptr, std::errc::invalid_argument};
  if (number.ec != std::errc()) return Error(Code::kCorrupt, "path '" + std::string(path) + "' begins at no argument");
  for (size_t at = static_cast<size_t>(number.ptr - path.data()); at < path.size();) {
    TRY_ASSIGN(Step step, ParseStep(path, at));
    out.steps_.push_back(std::move(step));
  }
  return out;
}

PyObject* ObjectPath::Follow(const std::vector<PyObject*>& objects) const {
  if (object_ >= objects.size()) return nullptr;
  Seen seen{PythonRef::Borrow(objects[object_]), std::nullopt};
  for (const Step& step : steps_) {
    if (!seen.object) return nullptr;
    seen = Look(seen.object.get(), step.reading, step.key.get());
  }
  return Py_XNewRef(seen.object.get());
}

}  // namespace ingot::client
