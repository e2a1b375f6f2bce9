// SPDX-License-Identifier: Apache-2.0
// Answers of S3 servers: whoever stands for one chooses their bytes.
#include "cache/s3/s3_xml.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using cache::XmlElement;

std::string Print(const XmlElement& element) {
  std::string text = "<" + element.name + ">" + cache::EscapeXml(element.text);
  for (const XmlElement& child : element.children) text += Print(child);
  return text + "</" + element.name + ">";
}

size_t Count(const XmlElement& element, int level) {
  Ensure(level <= 16, "elements are at most 16 levels deep");
  Ensure(!element.name.empty(), "an element has a name");
  size_t count = 1;
  for (const XmlElement& child : element.children) count += Count(child, level + 1);
  return count;
}

}  // namespace

std::vector<Buffer> Seeds() {
  const std::string list =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Name>b</Name><IsTruncated>false</IsTruncated><!-- two --><Contents><Key>a&amp;b</Key><Size>17</Size></Contents>"
      "<Contents><Key>&#x41;</Key><Size>0</Size></Contents></ListBucketResult>";
  const std::string error = "<Error><Code>NoSuchKey</Code><Message>none &lt;here&gt;</Message></Error>";
  return {Buffer(list.begin(), list.end()), Buffer(error.begin(), error.end())};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const auto document = cache::ParseXml(AsText({data, size}));
  if (!document) {
    fuzz::Ensure(document.error().code() == Code::kCorrupt, document.error().ToText());
    return 0;
  }
  fuzz::accepted = true;
  fuzz::Ensure(fuzz::Count(*document, 1) <= 65'536, "a document has at most 65,536 elements");
  const std::string text = fuzz::Print(*document);
  const auto again = cache::ParseXml(text);
  fuzz::Ensure(again && fuzz::Print(*again) == text, "what parses prints and parses again:\n" + text);
  return 0;
}
