// Stand-in: names of options that releases before 9.0 declare elsewhere. Written for this project.
#pragma once
#include <string>
#include "graph/types.h"
namespace ge {
const std::string OP_SELECT_IMPL_MODE = "ge.opSelectImplmode";
const std::string OPTYPELIST_FOR_IMPLMODE = "ge.optypelistForImplmode";
const std::string OP_PRECISION_MODE = "ge.exec.op_precision_mode";
const std::string ALLOW_HF32 = "ge.exec.allow_hf32";
const std::string SOC_VERSION = "ge.socVersion";
const std::string CORE_TYPE = "ge.engineType";
const std::string AICORE_NUM = "ge.aicoreNum";
const std::string BUFFER_OPTIMIZE = "ge.bufferOptimize";
const std::string OP_DEBUG_LEVEL = "ge.opDebugLevel";
const std::string OP_DEBUG_OPTION = "op_debug_option";
const std::string PERFORMANCE_MODE = "ge.performance_mode";
const std::string DETERMINISTIC = "ge.deterministic";
const std::string STATUS_CHECK = "ge.status_check";
const std::string OP_BANK_UPDATE_FLAG = "ge.op_bank_update";
const std::string BUILD_INNER_MODEL = "ge.build_inner_model";
const std::string JIT_COMPILE = "ge.jit_compile";
const std::string OPTION_EXEC_DEVICE_ID = "ge.exec.deviceId";
const char *const DEBUG_DIR = "ge.debugDir";
const char *const OP_COMPILER_CACHE_DIR = "ge.op_compiler_cache_dir";
const char *const OP_COMPILER_CACHE_MODE = "ge.op_compiler_cache_mode";
const char *const MDL_BANK_PATH_FLAG = "ge.mdl_bank_path";
const char *const OP_BANK_PATH_FLAG = "ge.op_bank_path";
}  // namespace ge
