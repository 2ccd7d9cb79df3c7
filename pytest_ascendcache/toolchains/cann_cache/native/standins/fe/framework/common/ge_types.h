// Stand-in: the parsers include it and use nothing of it. Written for this project.
#pragma once
#include "graph/types.h"
