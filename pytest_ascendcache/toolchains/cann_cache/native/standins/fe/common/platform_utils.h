// Stand-in: what FE asks about a chip while it reads its options. Written for this project.
#pragma once
#include <string>
#include "graph/types.h"
#include "register/graph_optimizer/graph_optimize_register_error_codes.h"
namespace fe {
class PlatformUtils {
 public:
  static PlatformUtils &Instance() {
    static PlatformUtils utils;
    return utils;
  }
  bool IsEnableAllowHF32() const { return false; }
};
}  // namespace fe
