#pragma once
#include "graph/ge_context.h"
