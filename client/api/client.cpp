// SPDX-License-Identifier: Apache-2.0
#include "client/api/client.h"

#include "client/api/client_state.h"
#include "client/lib/threads/machine_share.h"

namespace ingot {

Result<Client> Client::Connect(const ClientOptions& options) {
  client::ConnectionOptions inner;
  inner.store_dir = options.store_dir;
  inner.socket = options.socket;
  inner.daemon = options.daemon;
  inner.start = options.start;
  inner.kind = "cpp";
  inner.take_load = [](const client::LoadFiles& files) {
    client::MachineShare::Instance().Follow(files.own, files.machine, files.row, files.holder);
  };
  TRY_ASSIGN(std::unique_ptr<client::Connection> connection, client::Connection::Open(std::move(inner)));
  return Client(std::make_shared<State>(State{std::move(connection), options.deadline_ms}));
}

Result<std::string> Client::Query(const std::string& verb, const std::string& arguments) const {
  return state_->connection->Query(verb, arguments, state_->deadline_ms);
}

}  // namespace ingot
