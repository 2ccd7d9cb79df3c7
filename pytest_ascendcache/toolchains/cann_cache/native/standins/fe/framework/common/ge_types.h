// Stand-in: the parsers include it but use nothing from it. Written for this project.
#pragma once
#include "graph/types.h"
