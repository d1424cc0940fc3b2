// ClientModels: gives each client a view of the model with the client's own memory.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "api/common/api_call.h"
#include "api/common/generated_turn_store.h"
#include "api/responses/response_store.h"
#include "chat/call_ids.h"

namespace fathom::server {

struct ClientMemory {
  ReplayScope replay_scope = ReplayScope::kNamed;
  std::size_t replay_bytes = 0;  // bytes of all clients together; 0: nothing is replayed
  std::size_t response_bytes = ResponseStore::kDefaultBytes;  // bytes of all clients together
};

// A client is the holder of an API key. Stored responses, turns to replay and cached blocks belong
// to one client: no other client can read, continue or delete them, evict them from a store, or
// learn from the time of an answer that they exist. The memory is divided equally. Constant; any
// thread.
class ClientModels {
 public:
  // `keys`: one client each. Without keys there is one client, which also shares cached blocks with
  // other commands.
  ClientModels(const ApiModel& model, std::span<const std::string> keys, const ClientMemory& memory,
               const RandomBits& random_bits);

  // Returns the models, in the order of the keys; at least one.
  std::vector<const ApiModel*> models() const;

 private:
  struct Client {
    Client(const ApiModel& shared, std::string salt, const ClientMemory& memory,
           std::size_t n_clients, const RandomBits& random_bits);

    ResponseStore responses;
    GeneratedTurnStore turns;
    ApiModel model;
  };
  std::deque<Client> clients_;  // their models point to their stores
};

}  // namespace fathom::server
