// Stand-in: the error manager's name in older releases. Written for this project.
#pragma once
#include "base/err_msg.h"
