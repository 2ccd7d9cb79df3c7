// Stand-in: FE's path helper. Written for this project.
#pragma once
#include <climits>
#include <cstdlib>
#include <string>
#include "graph/op_desc.h"
#include "register/graph_optimizer/graph_optimize_register_error_codes.h"
namespace fe {
inline std::string GetRealPath(const std::string &path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? "" : resolved;
}
}  // namespace fe
