// Stand-in: kinds of device memory, names only. Written for this project.
#pragma once
#include <cstddef>
#include <cstdint>
using rtMemType_t = uint32_t;
constexpr rtMemType_t RT_MEMORY_HBM = 0x2, RT_MEMORY_L1 = 0x4000, RT_MEMORY_L2 = 0x100;
