#include "experts/balance/expert_balancer.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace fathom::experts {
namespace {

// The pack of an item, and its position there.
struct Packed {
  std::int64_t pack = 0;
  std::int64_t place = 0;  // position among the items of its pack
};

// Puts items into packs of the same number of items: the heaviest first, each into the lightest
// pack that has room. Items of the same weight are ordered as std::sort leaves them: the published
// code sorts with it too (torch.sort), and the tests compare with its placements.
std::vector<Packed> PackEvenly(std::span<const float> weights, std::int64_t n_packs) {
  const std::int64_t n = std::ssize(weights);
  const std::int64_t room = n / n_packs;
  std::vector<Packed> packed(weights.size());
  if (room == 1) {
    for (std::int64_t i = 0; i < n; ++i) {
      packed[static_cast<std::size_t>(i)] = {i, 0};
    }
    return packed;
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  std::vector<float> load(static_cast<std::size_t>(n_packs));
  std::vector<std::int64_t> n_items(load.size());
  for (const std::size_t item : order) {
    std::size_t lightest = load.size();
    for (std::size_t pack = 0; pack < load.size(); ++pack) {
      if (n_items[pack] < room && (lightest == load.size() || load[pack] < load[lightest])) {
        lightest = pack;
      }
    }
    packed[item] = {static_cast<std::int64_t>(lightest), n_items[lightest]++};
    load[lightest] += weights[item];
  }
  return packed;
}

struct Replicas {
  std::vector<std::size_t> expert_of;  // [replicas]
  std::vector<float> count;            // [experts]
};

// Gives each expert one replica; then, one by one, gives each further replica to the expert with
// the largest load per replica.
Replicas Replicate(std::span<const float> load, std::int64_t n_replicas) {
  Replicas replicas;
  replicas.count.assign(load.size(), 1);
  replicas.expert_of.resize(load.size());
  std::iota(replicas.expert_of.begin(), replicas.expert_of.end(), 0u);
  while (std::ssize(replicas.expert_of) < n_replicas) {
    std::size_t heaviest = 0;
    for (std::size_t e = 1; e < load.size(); ++e) {
      if (load[e] / replicas.count[e] > load[heaviest] / replicas.count[heaviest]) {
        heaviest = e;
      }
    }
    replicas.expert_of.push_back(heaviest);
    replicas.count[heaviest] += 1;
  }
  return replicas;
}

// Orders the logical experts by node: groups are packed to nodes by their load.
std::vector<std::size_t> OrderByNode(std::span<const float> load, std::int64_t n_groups,
                                     std::int64_t n_nodes) {
  const std::size_t group_size = load.size() / static_cast<std::size_t>(n_groups);
  std::vector<float> group_load;
  for (std::size_t first = 0; first < load.size(); first += group_size) {
    const auto group = load.subspan(first, group_size);
    group_load.push_back(std::accumulate(group.begin(), group.end(), 0.0f));
  }
  const std::vector<Packed> packed = PackEvenly(group_load, n_nodes);
  std::vector<std::size_t> order(load.size());
  for (std::size_t group = 0; group < packed.size(); ++group) {
    const auto to =
        static_cast<std::size_t>(packed[group].pack * (n_groups / n_nodes) + packed[group].place);
    for (std::size_t i = 0; i < group_size; ++i) {
      order[to * group_size + i] = group * group_size + i;
    }
  }
  return order;
}

struct Placed {
  std::size_t expert = 0;   // index among the experts of the node
  std::size_t replica = 0;  // index among the replicas of the expert
};

// Packs the physical experts of one node to its ranks, in their order.
std::vector<Placed> PlaceInNode(std::span<const float> load, std::int64_t n_physical,
                                std::int64_t n_ranks) {
  const Replicas replicas = Replicate(load, n_physical);
  std::vector<float> replica_load;
  for (const std::size_t expert : replicas.expert_of) {
    replica_load.push_back(load[expert] / replicas.count[expert]);
  }
  const std::vector<Packed> packed = PackEvenly(replica_load, n_ranks);
  std::vector<Placed> places(packed.size());
  std::vector<std::size_t> n_replicas(load.size());
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const std::size_t expert = replicas.expert_of[i];
    places[static_cast<std::size_t>(packed[i].pack * (n_physical / n_ranks) + packed[i].place)] = {
        expert, n_replicas[expert]++};
  }
  return places;
}

}  // namespace

ExpertPlacement MakePlacement(std::span<const std::int32_t> physical_to_logical,
                              std::int64_t n_logical) {
  ExpertPlacement placement;
  placement.physical_to_logical.assign(physical_to_logical.begin(), physical_to_logical.end());
  placement.logical_to_physical.resize(static_cast<std::size_t>(n_logical));
  for (std::size_t p = 0; p < physical_to_logical.size(); ++p) {
    placement.logical_to_physical[static_cast<std::size_t>(physical_to_logical[p])].push_back(
        static_cast<std::int32_t>(p));
  }
  return placement;
}

ExpertPlacement InitialPlacement(const ExpertCounts& counts) {
  std::vector<std::int32_t> physical_to_logical;
  for (std::int64_t p = 0; p < counts.n_physical; ++p) {
    physical_to_logical.push_back(static_cast<std::int32_t>(p % counts.n_logical));
  }
  return MakePlacement(physical_to_logical, counts.n_logical);
}

ExpertPlacement BalanceExperts(std::span<const float> load, const ExpertCounts& counts) {
  Check(std::ssize(load) == counts.n_logical, "one load per logical expert");
  // Groups that cannot be spread evenly over the nodes are ignored.
  const bool hierarchical = counts.n_groups % counts.n_nodes == 0;
  const std::int64_t n_nodes = hierarchical ? counts.n_nodes : 1;
  const std::vector<std::size_t> order =
      OrderByNode(load, hierarchical ? counts.n_groups : 1, n_nodes);
  const std::size_t per_node = load.size() / static_cast<std::size_t>(n_nodes);

  ExpertPlacement placement;
  placement.logical_to_physical.resize(load.size());
  for (std::size_t node = 0; node < static_cast<std::size_t>(n_nodes); ++node) {
    const auto experts = std::span(order).subspan(node * per_node, per_node);
    std::vector<float> node_load;
    for (const std::size_t expert : experts) {
      node_load.push_back(load[expert]);
    }
    for (const Placed& place :
         PlaceInNode(node_load, counts.n_physical / n_nodes, counts.n_ranks / n_nodes)) {
      const std::size_t expert = experts[place.expert];
      std::vector<std::int32_t>& replicas = placement.logical_to_physical[expert];
      replicas.resize(std::max(replicas.size(), place.replica + 1));
      replicas[place.replica] = static_cast<std::int32_t>(placement.physical_to_logical.size());
      placement.physical_to_logical.push_back(static_cast<std::int32_t>(expert));
    }
  }
  return placement;
}

double RankImbalance(std::span<const float> load, const ExpertPlacement& placement,
                     std::int64_t n_ranks) {
  const std::vector<std::int32_t>& logical = placement.physical_to_logical;
  const std::size_t per_rank = logical.size() / static_cast<std::size_t>(n_ranks);
  double sum = 0, most = 0;
  for (std::size_t first = 0; first < logical.size(); first += per_rank) {
    double rank_load = 0;
    for (std::size_t p = first; p < first + per_rank; ++p) {
      const auto expert = static_cast<std::size_t>(logical[p]);
      rank_load += static_cast<double>(load[expert]) /
                   static_cast<double>(placement.logical_to_physical[expert].size());
    }
    sum += rank_load;
    most = std::max(most, rank_load);
  }
  return sum > 0 ? most * static_cast<double>(n_ranks) / sum : 1;
}

}  // namespace fathom::experts
