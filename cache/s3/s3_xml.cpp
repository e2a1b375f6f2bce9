// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_xml.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <utility>

namespace ingot::cache {
namespace {

constexpr int kLevelsMax = 16;
constexpr size_t kElementsMax = 65'536;
constexpr std::pair<std::string_view, char> kEntities[] = {
    {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

void AppendUtf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 63));
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
}

class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  Result<XmlElement> Document() {
    TRY(Between());
    XmlElement root;
    TRY(Element(root, 1));
    TRY(Between());
    if (at_ != text_.size()) return Bad("text after the document");
    return root;
  }

 private:
  Error Bad(std::string_view why) const {
    return Error(Code::kCorrupt, fmt::format("not the XML of an S3 server at byte {}: {}", at_, why));
  }
  bool Take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  Status SkipPast(std::string_view word) {
    const auto end = text_.find(word, at_);
    if (end == std::string_view::npos) return Bad("it ends too soon");
    at_ = end + word.size();
    return {};
  }
  /// Space, comments and instructions between elements.
  Status Between() {
    while (at_ < text_.size()) {
      if (IsSpace(text_[at_])) {
        ++at_;
      } else if (Take("<?")) {
        TRY(SkipPast("?>"));
      } else if (Take("<!--")) {
        TRY(SkipPast("-->"));
      } else {
        break;
      }
    }
    return {};
  }
  std::string_view Name() {
    const size_t first = at_;
    while (at_ < text_.size() && !IsSpace(text_[at_]) &&
           std::string_view("<>/=&\"'").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    return text_.substr(first, at_ - first);
  }
  Status Reference(std::string& out) {
    const auto end = text_.find(';', at_);
    if (end == std::string_view::npos || end - at_ > 10) return Bad("an entity that does not end");
    std::string_view name = text_.substr(at_, end - at_);
    at_ = end + 1;
    for (const auto& [known, c] : kEntities) {
      if (name == known) {
        out += c;
        return {};
      }
    }
    if (!name.starts_with('#')) return Bad("an entity of somebody's own");
    name.remove_prefix(1);
    const int base = name.starts_with('x') ? 16 : 10;
    if (base == 16) name.remove_prefix(1);
    uint32_t c = 0;
    const auto [last, error] = std::from_chars(name.data(), name.data() + name.size(), c, base);
    if (error != std::errc() || last != name.data() + name.size() || c == 0 || c > 0x10FFFF ||
        (c >= 0xD800 && c < 0xE000)) {
      return Bad("a character that does not exist");
    }
    AppendUtf8(out, c);
    return {};
  }
  /// From "<" of an element to the ">" of its end.
  Status Element(XmlElement& out, int level) {
    if (level > kLevelsMax || ++elements_ > kElementsMax) return Bad("too many elements");
    if (!Take("<")) return Bad("no element where one should be");
    out.name = Name();
    if (out.name.empty() || out.name[0] == '!') return Bad("an element without a name, or a declaration");
    while (true) {  // attributes
      if (at_ >= text_.size()) return Bad("it ends too soon");
      if (Take("/>")) return {};
      if (Take(">")) break;
      const char c = text_[at_];
      if (c == '<' || c == '&') return Bad("an element that does not end");
      ++at_;
      if (c == '"' || c == '\'') TRY(SkipPast(std::string_view(&c, 1)));
    }
    while (true) {
      if (at_ >= text_.size()) return Bad("it ends too soon");
      if (Take("</")) {
        if (Name() != out.name) return Bad("an end of another element");
        while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
        if (!Take(">")) return Bad("an end that does not end");
        return {};
      }
      if (Take("<!--")) {
        TRY(SkipPast("-->"));
      } else if (Take("<![CDATA[")) {
        const size_t first = at_;
        TRY(SkipPast("]]>"));
        out.text += text_.substr(first, at_ - 3 - first);
      } else if (text_[at_] == '<') {
        TRY(Element(out.children.emplace_back(), level + 1));
      } else if (Take("&")) {
        TRY(Reference(out.text));
      } else {
        out.text += text_[at_++];
      }
    }
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t elements_ = 0;
};

}  // namespace

std::string_view XmlElement::TextOf(std::string_view child) const {
  for (const XmlElement& element : children) {
    if (element.name == child) return element.text;
  }
  return {};
}

Result<XmlElement> ParseXml(std::string_view text) { return XmlReader(text).Document(); }

std::string EscapeXml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    bool escaped = false;
    for (const auto& [name, special] : kEntities) {
      if (c == special) {
        out += fmt::format("&{};", name);
        escaped = true;
      }
    }
    if (!escaped) out += c;
  }
  return out;
}

}  // namespace ingot::cache
