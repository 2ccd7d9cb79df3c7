#pragma once
#include "rt_external_mem.h"
