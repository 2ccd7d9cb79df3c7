// Stand-in: options name tensors, the cache layer has none. Written for this project.
#pragma once
#include "graph/types.h"
namespace ge {
class Tensor {};
}  // namespace ge
