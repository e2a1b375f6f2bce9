// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/scale_load.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <queue>
#include <random>
#include <utility>

#include "proto/frame.h"
#include "proto/message.h"

namespace ingot::bench {
namespace {

using Steady = std::chrono::steady_clock;
using proto::MessageType;

Buffer FrameOf(MessageType type, const Buffer& body) {
  const auto head = proto::EncodeHeader(
      {.type = static_cast<uint16_t>(type), .request = 1, .length = static_cast<uint32_t>(body.size())});
  Buffer out(head.size() + body.size());
  std::ranges::copy(head, out.begin());
  std::ranges::copy(body, out.begin() + head.size());
  return out;
}

Buffer LookupFrame(proto::EntryKeyT key) {
  proto::LookupT lookup;
  lookup.key = std::make_unique<proto::EntryKeyT>(std::move(key));
  return FrameOf(MessageType::Lookup, proto::PackMessage<proto::Lookup>(lookup));
}

Result<UniqueFd> Connect(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Error(Code::kUnavailable, fmt::format("connect to {}: {}", path, std::strerror(errno)));
  }
  return socket;
}

/// One connection with at most one question under way.
class Client {
 public:
  explicit Client(UniqueFd socket) : socket_(std::move(socket)), in_(64 << 10) {}
  int fd() const { return socket_.get(); }
  bool is_hot = false;
  Steady::time_point sent;

  Status Send(const Buffer& frame) {
    have_ = 0;
    sent = Steady::now();
    const ssize_t done = send(fd(), frame.data(), frame.size(), MSG_NOSIGNAL);
    if (done == static_cast<ssize_t>(frame.size())) return {};
    return Error(Code::kUnavailable, fmt::format("send: {}", std::strerror(errno)));
  }

  /// Reads what is there and closes the files that come with it; true once the answer is whole.
  Result<bool> Receive(bool wait) {
    while (true) {
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * proto::kFrameDescriptorsMax)];
      iovec part{in_.data() + have_, in_.size() - have_};
      msghdr message{.msg_name = nullptr,
                     .msg_namelen = 0,
                     .msg_iov = &part,
                     .msg_iovlen = 1,
                     .msg_control = control,
                     .msg_controllen = sizeof control,
                     .msg_flags = 0};
      const ssize_t got = recvmsg(fd(), &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return false;
      if (got <= 0) return Error(Code::kUnavailable, "the daemon closed a connection");
      for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
        const size_t files = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < files; ++i) close(reinterpret_cast<int*>(CMSG_DATA(at))[i]);
      }
      have_ += static_cast<size_t>(got);
      if (have_ < proto::kFrameHeaderBytes) continue;
      TRY_ASSIGN(header_, proto::DecodeHeader(Bytes(in_.data(), have_)));
      if (in_.size() < proto::kFrameHeaderBytes + header_.length) in_.resize(proto::kFrameHeaderBytes + header_.length);
      if (have_ == proto::kFrameHeaderBytes + header_.length) return true;
    }
  }

  /// What the whole answer said.
  void Count(LoadResult& result) const {
    const Buffer body(in_.begin() + proto::kFrameHeaderBytes, in_.begin() + static_cast<long>(have_));
    if (header_.type == static_cast<uint16_t>(MessageType::LookupReply)) {
      const auto* reply = flatbuffers::GetRoot<proto::LookupReply>(body.data());
      ++(reply->found() ? result.found : result.missed);
      return;
    }
    if (result.refused++ != 0) return;
    const auto* reply = proto::ReadMessage<proto::ErrorReply>(body);
    result.refusal = reply == nullptr || reply->message() == nullptr ? "no answer" : reply->message()->str();
  }

 private:
  UniqueFd socket_;
  Buffer in_;
  size_t have_ = 0;
  proto::FrameHeader header_;
};

Status Greet(Client& client) {
  proto::HelloT hello;
  hello.kind = "bench";
  TRY(client.Send(FrameOf(MessageType::Hello, proto::PackMessage<proto::Hello>(hello))));
  TRY_ASSIGN(const bool whole, client.Receive(/*wait=*/true));
  return whole ? Status() : Error(Code::kInternal, "no hello");
}

float MicrosSince(Steady::time_point began) {
  return std::chrono::duration<float, std::micro>(Steady::now() - began).count();
}

}  // namespace

std::vector<float> LoadResult::all_us() const {
  std::vector<float> all = hot_us;
  all.insert(all.end(), cold_us.begin(), cold_us.end());
  return all;
}

Result<LoadResult> Run(const Load& load, const Population& population) {
  // Sleeps end when they should, not up to 50 us later.
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  std::mt19937_64 random(7);
  std::vector<Buffer> hot;
  for (uint64_t i = 0; i < load.hot; ++i) hot.push_back(LookupFrame(population.KeyOf(i * 1009 % population.entries)));
  const UniqueFd events(epoll_create1(EPOLL_CLOEXEC));
  std::vector<std::unique_ptr<Client>> clients;
  using Turn = std::pair<Steady::time_point, size_t>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> thinking;
  const auto think = [&] {
    const auto span = static_cast<uint64_t>((load.think_max - load.think_min).count());
    return load.think_min + std::chrono::microseconds(span == 0 ? 0 : random() % span);
  };
  const auto began = Steady::now();
  for (size_t i = 0; i < load.clients; ++i) {
    TRY_ASSIGN(UniqueFd socket, Connect(load.socket));
    clients.push_back(std::make_unique<Client>(std::move(socket)));
    TRY(Greet(*clients.back()));
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    epoll_ctl(events.get(), EPOLL_CTL_ADD, clients.back()->fd(), &event);
    thinking.emplace(began + think(), i);
  }
  LoadResult result;
  const auto end = began + load.time;
  std::vector<float> second;
  auto second_ends = began + std::chrono::seconds(1);
  while (Steady::now() < end) {
    if (Steady::now() >= second_ends) {
      const double p99 = Percentile(std::exchange(second, {}), 99);
      if (p99 != 0 && (result.quiet_p99_us == 0 || p99 < result.quiet_p99_us)) result.quiet_p99_us = p99;
      second_ends += std::chrono::seconds(1);
    }
    while (!thinking.empty() && thinking.top().first <= Steady::now()) {
      Client& client = *clients[thinking.top().second];
      thinking.pop();
      client.is_hot = random() % 100 >= load.cold_percent;
      const Buffer* frame = &hot[random() % hot.size()];
      Buffer cold;
      if (!client.is_hot) {
        cold = LookupFrame(population.KeyOf(random() % population.entries));
        frame = &cold;
      }
      TRY(client.Send(*frame));
    }
    auto wait = std::chrono::nanoseconds(20'000'000);
    if (!thinking.empty()) wait = std::min(wait, std::chrono::nanoseconds(thinking.top().first - Steady::now()));
    wait = std::max(wait, std::chrono::nanoseconds(0));
    const timespec left{.tv_sec = 0, .tv_nsec = wait.count()};
    epoll_event ready[64];
    const int count = epoll_pwait2(events.get(), ready, 64, &left, nullptr);
    for (int i = 0; i < count; ++i) {
      Client& client = *clients[ready[i].data.u64];
      TRY_ASSIGN(const bool whole, client.Receive(/*wait=*/false));
      if (!whole) continue;
      const float micros = MicrosSince(client.sent);
      (client.is_hot ? result.hot_us : result.cold_us).push_back(micros);
      second.push_back(micros);
      client.Count(result);
      thinking.emplace(Steady::now() + think(), size_t{ready[i].data.u64});
    }
  }
  result.seconds = std::chrono::duration<double>(Steady::now() - began).count();
  return result;
}

double Percentile(std::vector<float> values, double percent) {
  if (values.empty()) return 0;
  const auto at = static_cast<long>(
      std::min<double>(static_cast<double>(values.size()) * percent / 100, static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

std::string Describe(const std::vector<float>& values) {
  return fmt::format("p50 {:8.1f} us, p99 {:8.1f} us, p99.9 {:8.1f} us, most {:9.1f} us, {} of them",
                     Percentile(values, 50), Percentile(values, 99), Percentile(values, 99.9), Percentile(values, 100),
                     values.size());
}

Status RunSession(const std::string& socket, const Population& population, uint64_t number) {
  TRY_ASSIGN(UniqueFd connected, Connect(socket));
  Client client(std::move(connected));
  TRY(Greet(client));
  TRY(client.Send(LookupFrame(population.KeyOf(number))));
  TRY_ASSIGN(const bool whole, client.Receive(/*wait=*/true));
  LoadResult result;
  if (whole) client.Count(result);
  // A full store may have evicted it meanwhile.
  if (result.found + result.missed == 1) return {};
  return Error(Code::kInternal, "a session was refused: " + result.refusal);
}

}  // namespace ingot::bench
