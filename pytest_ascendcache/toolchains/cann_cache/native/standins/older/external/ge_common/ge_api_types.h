#pragma once
#include "ge_common/ge_api_types.h"
