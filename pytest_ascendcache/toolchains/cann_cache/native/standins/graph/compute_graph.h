#pragma once
#include "graph/node.h"
