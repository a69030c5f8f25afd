// Work shared out over XLA's own threads, the pool that it hands a foreign function.
#pragma once

#include <utility>

#include "shares.h"
#include "xla/ffi/api/ffi.h"

struct XlaThreads {
  xla::ffi::ThreadPool pool;

  template <typename Work>
  void operator()(int64_t count, int64_t grain, Work work) {
    share_out(count, grain, pool.num_threads(), [&](auto task) { pool.Schedule(std::move(task)); }, work);
  }
};
