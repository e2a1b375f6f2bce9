// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ingot::support {

/// An S3 server on a port of this machine, its objects in memory: it verifies signatures itself, and fails as it is
/// told to. Path style only. Thread-safe; a thread for each connection.
class FakeS3 {
 public:
  static constexpr const char* kAccessKey = "AKIDEXAMPLE";
  static constexpr const char* kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
  static constexpr const char* kBucket = "cache";
  static constexpr const char* kRegion = "eu-test-1";

  struct Object {
    std::string bytes;
    std::map<std::string, std::string> fields;  ///< x-amz-meta-*
    std::string tag;
    int64_t modified_s = 0;  ///< Unix seconds; 0 in SetObject: now.
  };
  struct Upload {
    std::string key;
    std::map<std::string, std::string> fields;
    std::map<int, Object> parts;
    std::string initiated;
  };

  enum class Fault {
    kStatus,       ///< Answers `status` with `code`.
    kRefuse,       ///< Closes instead of an answer.
    kCut,          ///< Closes after `after` bytes of the answer's body.
    kHang,         ///< Reads the request and answers nothing.
    kDrip,         ///< Sends the body a byte at a time, `pause` between them.
    kWrongBytes,   ///< One bit of the body is another.
    kShort,        ///< Announces and sends one byte less.
    kHugeHeader,   ///< A header of 1 MiB.
    kEndlessBody,  ///< A body without a length that does not end.
    kApplyAndRefuse,  ///< Does what was asked, and closes instead of an answer.
  };
  struct Plan {
    Fault fault = Fault::kStatus;
    std::string method;    ///< Of which requests; empty: all.
    std::string contains;  ///< In path and query; empty: all.
    std::string range;     ///< Beginning of the field Range; empty: all.
    int skip = 0;  ///< So many of them are answered as they should be first.
    int times = 1;
    int status = 500;
    std::string code = "InternalError";
    std::string message = "told to fail";
    int retry_after_s = 0;
    uint64_t after = 0;
    std::chrono::milliseconds pause{20};
  };
  /// What a server may not know.
  struct Abilities {
    bool has_ranges = true;
    bool has_conditional_put = true;      ///< If-None-Match
    bool has_conditional_replace = true;  ///< If-Match
    /// Answers 501 to conditions it does not know instead of passing over them.
    bool refuses_conditions = false;
    bool checks_signed_hash = true;
    bool checks_sha256 = true;
    bool checks_md5 = true;
  };

  FakeS3() : FakeS3(Abilities()) {}
  explicit FakeS3(Abilities abilities);
  ~FakeS3();
  FakeS3(const FakeS3&) = delete;
  FakeS3& operator=(const FakeS3&) = delete;

  /// "http://127.0.0.1:PORT"
  std::string endpoint() const;
  void Fail(Plan plan);
  void Recover();
  /// A secret that signatures must have been made with.
  void SetSecret(std::string secret);
  void SetToken(std::string token);
  /// Seconds that the server's clock is ahead.
  void SetClockOffset(int64_t seconds);

  std::map<std::string, Object> objects() const;
  void SetObject(const std::string& key, Object object);
  std::map<std::string, Upload> uploads() const;
  void SetUpload(const std::string& id, Upload upload);
  /// Requests by method, those with faults too.
  std::map<std::string, int> requests() const;
  int requests_of(const std::string& method) const;
  int bad_signatures() const;
  /// Connections accepted since the start, and those open now.
  int connections() const;
  int open_connections() const;
  /// The most that were open at once.
  int open_connections_max() const;

 private:
  struct Connection;
  void Accept();
  void Serve(Connection& connection);

  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace ingot::support
