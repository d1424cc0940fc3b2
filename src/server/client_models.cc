#include "server/client_models.h"

#include <utility>

namespace fathom::server {

ClientModels::Client::Client(const ApiModel& shared, std::string salt, const ClientMemory& memory,
                             std::size_t n_clients, const RandomBits& random_bits)
    : responses(memory.response_bytes / n_clients),
      turns(memory.replay_scope, memory.replay_bytes / n_clients, random_bits),
      model(shared) {
  model.responses = &responses;
  model.turns = memory.replay_bytes > 0 ? &turns : nullptr;
  model.cache_salt = std::move(salt);
}

ClientModels::ClientModels(const ApiModel& model, std::span<const std::string> keys,
                           const ClientMemory& memory, const RandomBits& random_bits) {
  for (const std::string& key : keys) {
    clients_.emplace_back(model, key, memory, keys.size(), random_bits);
  }
  if (keys.empty()) clients_.emplace_back(model, "", memory, 1, random_bits);
}

std::vector<const ApiModel*> ClientModels::models() const {
  std::vector<const ApiModel*> models;
  for (const Client& client : clients_) models.push_back(&client.model);
  return models;
}

}  // namespace fathom::server
