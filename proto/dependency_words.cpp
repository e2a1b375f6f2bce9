// SPDX-License-Identifier: Apache-2.0
#include "proto/dependency_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ingot::proto {
namespace {

constexpr std::string_view kTables[] = {"._modules[\"", "._parameters[\"", "._buffers[\""};

/// A path as people write it: `self._modules["layers"].scale` is self.layers.scale,
/// `torch.nn:Module$forward` torch.nn.Module.forward.
std::string Plain(std::string_view where) {
  std::string out;
  for (size_t at = 0; at < where.size();) {
    const auto table =
        std::ranges::find_if(kTables, [&](std::string_view one) { return where.substr(at).starts_with(one); });
    const size_t name = table == std::end(kTables) ? where.npos : at + table->size();
    const size_t end = name == where.npos ? where.npos : where.find("\"]", name);
    if (end != where.npos) {
      out += '.';
      out += where.substr(name, end - name);
      at = end + 2;
      continue;
    }
    const char c = where[at++];
    const bool is_object = out == "object";
    out += c == ':' && !is_object && out.find('[') == out.npos ? '.' : c == '$' || c == '~' ? '.' : c;
  }
  if (out.starts_with('.')) out.erase(0, 1);
  return out;
}

/// What is behind the last mark of a path: `self.names!len`.
std::string_view FieldOf(std::string_view where) {
  const size_t mark = where.rfind('!');
  return mark == where.npos ? std::string_view() : where.substr(mark + 1);
}

std::string Part(std::string_view where) {
  const std::string_view field = FieldOf(where);
  const std::string holder = Plain(where.substr(0, where.size() - field.size() - (field.empty() ? 0 : 1)));
  if (field == "len") return fmt::format("the length of {}", holder);
  if (field == "keys") return fmt::format("the keys of {}", holder);
  if (field == "content") return fmt::format("what {} holds", holder);
  if (field == "meta") return fmt::format("type and sizes of {}", holder);
  if (field == "bases") return fmt::format("the bases of {}", holder);
  if (field == "special") return fmt::format("the special methods of {}", holder);
  if (field == "kind") return fmt::format("the kind of {}", holder);
  if (field == "context") return fmt::format("context variable {}", holder);
  return field.empty() ? holder : fmt::format("the {} of {}", field, holder);
}

std::string Subject(std::string_view kind, std::string_view where) {
  if (kind == "env") {
    const size_t begin = where.find('"'), end = where.rfind('"');
    return fmt::format("environment variable {}", begin < end ? where.substr(begin + 1, end - begin - 1) : where);
  }
  if (kind == "attribute" || kind == "item" || kind == "same") return Plain(where);
  if (kind == "part") return Part(where);
  if (kind == "code") return fmt::format("code {}", Plain(where.substr(0, where.rfind('!'))));
  if (kind == "closure") {
    const size_t mark = where.rfind('%');
    return mark == where.npos ? std::string(where)
                              : fmt::format("{} of {}", where.substr(mark + 1), Plain(where.substr(0, mark)));
  }
  if (kind == "custom_op") return fmt::format("the implementation of operator {}", where);
  if (kind == "torch") return fmt::format("torch's {}", where);
  if (kind == "opaque") return Plain(where);
  return fmt::format("{} {}", kind, Plain(where));
}

/// Of these the text is the value; of the others it says more about the subject.
bool HasValue(std::string_view kind) {
  return kind == "env" || kind == "global" || kind == "attribute" || kind == "item" || kind == "closure" ||
         kind == "torch" || kind == "class" || kind == "part";
}

}  // namespace

std::string DependencySubject(std::string_view kind, std::string_view where) { return Subject(kind, where); }

bool IsProved(std::string_view kind) { return kind != "opaque"; }

std::string DependencyWords(std::string_view kind, std::string_view where, std::string_view text) {
  const char* claim = IsProved(kind) ? "proved" : "assumed";
  const std::string subject = Subject(kind, where);
  if (text.empty()) return fmt::format("{}: {} is unchanged", claim, subject);
  if (HasValue(kind)) return fmt::format("{}: {} is still {}", claim, subject, text);
  return fmt::format("{}: {} ({}) is unchanged", claim, subject, text);
}

}  // namespace ingot::proto
