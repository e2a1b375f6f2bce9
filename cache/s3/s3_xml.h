// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot::cache {

/// One element of an answer of an S3 server. Attributes, comments and namespaces are skipped.
struct XmlElement {
  std::string name;
  std::string text;
  std::vector<XmlElement> children;

  /// Text of the first child of that name; empty when there is none.
  std::string_view TextOf(std::string_view child) const;
};

/// Reads a document as data: the five entities of XML and numbers, no declarations of others, at most 16 levels and
/// 65,536 elements. kCorrupt: it is no such document.
Result<XmlElement> ParseXml(std::string_view text);
/// Text with the characters escaped that mean something in XML.
std::string EscapeXml(std::string_view text);

}  // namespace ingot::cache
