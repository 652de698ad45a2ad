// Gradients of all ranks' lanes come to the same bits as those of one.
#include "train/step/rank_sums.h"

#include <doctest/doctest.h>

#include <atomic>

#include "tensor/ops/binary.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/reduce.h"
#include "tensor/random.h"
#include "tests/train/ranks/local_ranks.h"
#include "train/step/owners.h"

namespace {

using namespace hg;
using namespace hg::testing;

// Parameters of sizes that fill no share evenly. The last gets a gradient from odd lanes alone, the
// one before it from none.
struct Batch7 {
  explicit Batch7(std::int64_t lanes) : lanes(lanes) {
    for (const std::int64_t size : {1, 37, 500, 5, 16})
      trained.push_back({std::to_string(size), Tensor::zeros({size}), true});
  }

  void add_lane(std::int64_t lane, Gradients& sum) const {
    Tape tape;
    for (const nn::Parameter& p : trained) tape.watch(p.value);
    Tensor loss;
    for (std::size_t p = 0; p < trained.size(); ++p) {
      if (p == 3 || (p == 4 && lane % 2 == 0)) continue;
      const Tensor factor = Tensor::empty(trained[p].value.shape());
      RandomStream stream(static_cast<std::uint64_t>(100 * lane) + p, "factor");
      fill_normal(factor, stream, 0, 1);
      const Tensor term = sum_all(mul(trained[p].value, factor));
      loss = loss.defined() ? add(loss, term) : term;
    }
    tape.backward_into(sum, loss);
  }
  LaneSums sums_of(const Share& share) const {
    LaneSums sums(lanes);
    for (std::int64_t l = share.first; l < share.end; ++l)
      sums.add(l, [&](Gradients& sum) { add_lane(l, sum); });
    return sums;
  }
  // As the optimizer adds the halves.
  std::vector<std::vector<float>> expected() const {
    const LaneSums sums = sums_of({0, lanes});
    std::vector<std::vector<float>> all;
    for (const nn::Parameter& p : trained) {
      std::vector<float> sum;
      for (const LaneSum& half : sums.nodes()) {
        if (!half.gradients.has(p.value)) continue;
        const std::vector<float> part = half.gradients[p.value].to_vector<float>();
        if (sum.empty())
          sum = part;
        else
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      }
      all.push_back(sum);
    }
    return all;
  }

  const std::int64_t lanes;
  std::vector<nn::Parameter> trained;
};

}  // namespace

TEST_CASE("gradients of ranks are added by the tree of lanes") {
  for (const std::int64_t lanes : {1, 2, 5, 7, 16}) {
    const Batch7 batch(lanes);
    const auto expected = batch.expected();
    for (const std::string machines : {"aa", "aaa", "aaaaa"}) {
      INFO(lanes << " lanes, " << machines.size() << " ranks");
      std::atomic<int> right = 0;
      on_local_ranks(machines, [&](Ranks& ranks) {
        const LaneSums own = batch.sums_of(share_of(lanes, ranks.rank(), ranks.size()));
        Packer packed;
        pack(nodes_held(own, batch.trained), packed);
        std::vector<HeldNodes> held;
        for (const std::string& text : ranks.gather(std::string_view(packed.all()))) {
          Unpacker from(text);
          held.push_back(unpack_nodes(from));
        }
        const Tensors sums = sum_over_ranks(ranks, own, held, lanes, batch.trained);
        const CachedVector<int> owners = owners_of(batch.trained, ranks.size());
        bool same = true;
        for (std::size_t p = 0; p < sums.size(); ++p)
          same = same && (sums[p].defined() ? sums[p].to_vector<float>() : std::vector<float>()) ==
                             (owners[p] == ranks.rank() ? expected[p] : std::vector<float>());
        right += same;
      });
      CHECK(right == static_cast<int>(machines.size()));
    }
  }
}
