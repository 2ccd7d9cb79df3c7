// Stand-in for GE's session options: one map, filled from the command line. Written for this project.
#pragma once
#include <map>
#include <string>
#include "graph/types.h"
namespace ge {
class GEContext {
 public:
  std::map<std::string, std::string> options;
  graphStatus GetOption(const std::string &key, std::string &option);
  const std::string &GetReadableName(const std::string &key);
  uint64_t SessionId() const { return 0; }
  uint64_t ContextId() const { return 0; }
};
GEContext &GetContext();
using GEThreadLocalContext = GEContext;
GEContext &GetThreadLocalContext();
}  // namespace ge
