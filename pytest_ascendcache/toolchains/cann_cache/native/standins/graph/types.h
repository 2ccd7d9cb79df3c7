// Stand-in for the element types and formats of GE's graphs. Written for this project.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
#define GE_FUNC_DEV_VISIBILITY
#define GE_FUNC_HOST_VISIBILITY
using char_t = char;
namespace ge {
using char_t = char;
using float32_t = float;
using float64_t = double;
using graphStatus = uint32_t;
using Status = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0, GRAPH_FAILED = 0xFFFFFFFF;
enum DataType {
  DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT8 = 2, DT_INT32 = 3, DT_UINT8 = 4, DT_INT16 = 6, DT_UINT16 = 7,
  DT_UINT32 = 8, DT_INT64 = 9, DT_UINT64 = 10, DT_DOUBLE = 11, DT_BOOL = 12, DT_STRING = 13,
  DT_COMPLEX64 = 16, DT_COMPLEX32 = 33, DT_COMPLEX128 = 17, DT_BF16 = 27, DT_UNDEFINED = 28, DT_MAX
};
enum Format {
  FORMAT_NCHW = 0, FORMAT_NHWC = 1, FORMAT_ND = 2, FORMAT_RESERVED = 40,
  // Only tables that are not used here name these.
  FORMAT_C1HWC0, FORMAT_C1HWNCoC0, FORMAT_CHWN, FORMAT_DHWCN, FORMAT_DHWNC, FORMAT_FRACTAL_NZ,
  FORMAT_FRACTAL_NZ_C0_16, FORMAT_FRACTAL_NZ_C0_2, FORMAT_FRACTAL_NZ_C0_32,
  FORMAT_FRACTAL_NZ_C0_4, FORMAT_FRACTAL_NZ_C0_8, FORMAT_FRACTAL_Z, FORMAT_FRACTAL_Z_3D,
  FORMAT_FRACTAL_Z_3D_TRANSPOSE, FORMAT_FRACTAL_Z_C04, FORMAT_FRACTAL_Z_WINO, FORMAT_HWCN,
  FORMAT_NC1HWC0, FORMAT_NC1HWC0_C04, FORMAT_NCDHW, FORMAT_NDC1HWC0, FORMAT_NDHWC
};
enum Placement : int32_t { kPlacementHost = 0 };
}  // namespace ge
