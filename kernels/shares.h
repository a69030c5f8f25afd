// Work shared out over threads that a framework lends.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

// work(begin, end) over 0…count, in parts of at least `grain`; schedule(task) has one of `threads` do a task some time. The caller takes
// parts too, and waits for none that nobody has begun: all the threads may be callers. A thread that comes late finds no part left, and
// touches nothing but the counters, which it shares.
template <typename Schedule, typename Work>
void share_out(int64_t count, int64_t grain, int64_t threads, Schedule schedule, Work work) {
  constexpr int64_t PARTS = 4;  // a thread's: whoever is held up leaves more to the others
  struct Counters {
    std::atomic<int64_t> next{0}, done{0};
  };
  const int64_t parts = std::clamp<int64_t>(count / grain, 1, PARTS * std::max<int64_t>(threads, 1));
  const auto counters = std::make_shared<Counters>();
  auto take = [counters, parts, count, &work] {
    for (int64_t part; (part = counters->next++) < parts;) {
      work(part * count / parts, (part + 1) * count / parts);
      if (++counters->done == parts) counters->done.notify_one();
    }
  };
  for (int64_t helper = 1; helper < std::min(threads, parts); ++helper) schedule(decltype(take)(take));
  take();
  for (int64_t done; (done = counters->done) < parts;) counters->done.wait(done);
}
