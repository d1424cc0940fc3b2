// ClientModels: the model as each client has it, with a memory of the client's own.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/common/api_call.h"
#include "api/common/generated_turn_store.h"
#include "api/responses/response_store.h"
#include "chat/call_ids.h"

namespace fathom {

struct ClientMemory {
  ReplayScope replay_scope = ReplayScope::kNamed;
  std::size_t replay_bytes = 0;  // of all clients together; 0: nothing is replayed
  std::size_t response_bytes = ResponseStore::kDefaultBytes;  // of all clients together
};

// A client is who holds an API key. Stored responses, turns to replay and cached blocks belong to
// one client: no other can read, continue or delete them, push them out of a store, or learn from
// the time of an answer that they exist. The memory is divided equally. Constant; any thread.
class ClientModels {
 public:
  // `keys`: one client each; without keys all are one client, whose cached blocks are those of
  // other commands, too.
  ClientModels(const ApiModel& model, std::span<const std::string> keys, const ClientMemory& memory,
               const RandomBits& random_bits);
  ~ClientModels();

  // Returns the models, in the order of the keys; at least one.
  std::vector<const ApiModel*> models() const;

 private:
  struct Client;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace fathom
