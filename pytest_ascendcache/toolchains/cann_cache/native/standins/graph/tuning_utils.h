// Stand-in: names of GE's build options. Written for this project.
#pragma once
#if __has_include("ge_common/ge_common_api_types.h")
#include "ge_common/ge_common_api_types.h"
#else  // before 9.1
#include "ge/ge_api_types.h"
#endif
namespace ge {
constexpr char BUILD_MODE[] = "ge.buildMode";
constexpr char BUILD_STEP[] = "ge.buildStep";
constexpr char TUNING_PATH[] = "ge.tuningPath";
constexpr char BUILD_MODE_TUNING[] = "tuning";
constexpr char BUILD_MODE_OPAT_RESULT[] = "opat_result";
}  // namespace ge
