#include "train/eval/weight_spread.h"

#include <cmath>

#include "tensor/observer.h"
#include "tensor/transfer.h"
#include "train/step/groups.h"
#include "train/step/rank_records.h"

namespace hg {
namespace {

using Spread = QuadraticOptions::Spread;
using Probed = nn::PassRecord::Probed;

// What all layers say of all queries, in order of images.
CachedVector<Probed> probe(const nn::Vit& model, const Batch& batch, Spread what) {
  const PhaseScope phase(Phase::eval);
  const GroupPlan plan = plan_groups(model, batch);
  CachedVector<nn::PassRecord> records(static_cast<std::size_t>(plan.groups));
  for_each_group(plan, [&](std::int64_t g) {
    nn::PassRecord& record = records[static_cast<std::size_t>(g)];
    record.probe = what;
    const Batch part = plan.part_of(batch, g);
    model.logits(part.images, {nullptr, &record}, part.keep);
  });
  share_groups(
      plan,
      [&](Packer& to, std::int64_t g) { pack_probed(records[static_cast<std::size_t>(g)], to); },
      [&](Unpacker& from, std::int64_t g) {
        unpack_probed(from, records[static_cast<std::size_t>(g)]);
      });
  CachedVector<Probed> all;
  for (const nn::PassRecord& record : records)
    all.insert(all.end(), record.probed.begin(), record.probed.end());
  return all;
}

}  // namespace

std::optional<WeightSpread> weight_spread(const nn::Vit& model, const Batch& batch) {
  const CachedVector<Probed> entropies = probe(model, batch, Spread::entropy);
  if (entropies.empty()) return std::nullopt;
  double support = 0, queries = 0, small = 0, weights = 0;
  for (const Probed& layer : entropies) {
    for (const float entropy : on_host(layer.spread).to_vector<float>())
      support += std::exp(static_cast<double>(entropy));
    queries += static_cast<double>(layer.spread.numel());
  }
  for (const Probed& layer : probe(model, batch, Spread::small)) {
    for (const float count : on_host(layer.spread).to_vector<float>())
      small += static_cast<double>(count);
    weights += static_cast<double>(layer.spread.numel() * layer.keys);
  }
  return WeightSpread{small / weights, support / queries};
}

}  // namespace hg
