// Stand-in for GE's pointer helpers. Written for this project.
#pragma once
#include "graph/types.h"
namespace ge {
template <typename From, typename To>
To *PtrToPtr(From *from) {
  return reinterpret_cast<To *>(from);
}
}  // namespace ge
