// What XLA calls: starts the kernel on XLA's stream, through the function at the address `start`.
//
// XLA's headers take longer to compile than a kernel. So this knows no kernel: it is compiled once, whatever types and sizes there are.

#include <cstdint>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Stream = struct CUstream_st*;  // cudaStream_t
using Start = int(const void* x, const void* codes, const void* parameters, void* out, int m, int n, int k, Stream);

static ffi::Error call(Stream stream, int64_t start, ffi::AnyBuffer x, ffi::AnyBuffer codes, ffi::AnyBuffer parameters,
                       ffi::Result<ffi::AnyBuffer> out) {
  const int m = x.dimensions()[0], k = x.dimensions()[1], n = out->dimensions()[1];
  const int error = reinterpret_cast<Start*>(start)(x.untyped_data(), codes.untyped_data(), parameters.untyped_data(), out->untyped_data(),
                                                    m, n, k, stream);
  return error ? ffi::Error::Internal("CUDA did not start the kernel: error " + std::to_string(error)) : ffi::Error::Success();
}

#define ARRAY Arg<ffi::AnyBuffer>()
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    handler, call, ffi::Ffi::Bind().Ctx<ffi::PlatformStream<Stream>>().Attr<int64_t>("start").ARRAY.ARRAY.ARRAY.Ret<ffi::AnyBuffer>(),
    {ffi::Traits::kCmdBufferCompatible});
