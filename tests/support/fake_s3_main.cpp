// SPDX-License-Identifier: Apache-2.0
// fake-s3: an S3 server in memory for tests in other languages, until its input ends. Prints one line of NAME=VALUE.
#include <cstdio>

#include "tests/support/fake_s3.h"

int main() {
  using ingot::support::FakeS3;
  FakeS3 server;
  std::printf(
      "INGOT_S3_ENDPOINT=%s INGOT_S3_BUCKET=%s INGOT_S3_REGION=%s "
      "AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s\n",
      server.endpoint().c_str(), FakeS3::kBucket, FakeS3::kRegion, FakeS3::kAccessKey, FakeS3::kSecret);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}
