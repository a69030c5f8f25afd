// Work shared out over XLA's own threads, the pool that it hands a foreign function.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "xla/ffi/api/ffi.h"

struct XlaThreads {
  xla::ffi::ThreadPool pool;

  // work(begin, end) over 0…count, in parts of at least `grain`. The caller takes parts too, and waits for none that nobody has begun: all
  // the pool's threads may be callers. A thread that comes late finds no part left, and touches nothing but the counters, which it shares.
  template <typename Work>
  void operator()(int64_t count, int64_t grain, Work work) {
    struct Counters {
      std::atomic<int64_t> next{0}, done{0};
    };
    const int64_t threads = std::max<int64_t>(pool.num_threads(), 1);
    const int64_t parts = std::clamp<int64_t>(count / grain, 1, PARTS * threads);
    const auto counters = std::make_shared<Counters>();
    const auto take = [counters, parts, count, &work] {
      for (int64_t part; (part = counters->next++) < parts;) {
        work(part * count / parts, (part + 1) * count / parts);
        if (++counters->done == parts) counters->done.notify_one();
      }
    };
    for (int64_t helper = 1; helper < std::min(threads, parts); ++helper) pool.Schedule(std::remove_const_t<decltype(take)>(take));
    take();
    for (int64_t done; (done = counters->done) < parts;) counters->done.wait(done);
  }

  static constexpr int64_t PARTS = 4;  // a thread's: whoever is held up leaves more to the others
};
