#include <chrono>

#include "cli/commands/commands.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "measure/slice/shapes.h"
#include "measure/slice/write_slice.h"

namespace fathom::cli {

Status RunCommand(const MakeSliceCommand& command, Log&) {
  using Clock = std::chrono::steady_clock;
  Interrupt interrupt;
  ProgressBar bar("writing");
  ThreadTeam team(command.n_threads);
  const Clock::time_point start = Clock::now();
  const SliceOptions options = {
      .config = SliceConfig(command.pro ? ProConfig() : FlashConfig(), command.sizes),
      .seed = command.seed};
  const Result<SliceSummary> written = WriteSlice(command.out, options, team, [&](double share) {
    bar.Update(share);
    return !interrupt.Take();
  });
  if (!written) return Unexpected(written.error());
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return Print(fmt::format("{}: {} tensors in {} files, {} bytes, {:.1f} s ({:.0f} MB/s)\n",
                           command.out.string(), written->n_tensors, written->n_shards,
                           written->bytes, seconds,
                           static_cast<double>(written->bytes) / 1e6 / seconds));
}

}  // namespace fathom::cli
