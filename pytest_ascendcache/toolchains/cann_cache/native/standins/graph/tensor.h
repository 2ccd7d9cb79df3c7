// Stand-in: options mention tensors, but the cache layer uses none. Written for this project.
#pragma once
#include "graph/types.h"
namespace ge {
class Tensor {};
}  // namespace ge
