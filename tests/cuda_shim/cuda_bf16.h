#pragma once

#include "cuda_fp16.h"

using __nv_bfloat16 = __bf16;
