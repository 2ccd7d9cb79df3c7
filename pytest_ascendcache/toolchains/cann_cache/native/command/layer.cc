// The real cache layer and the real key, called in the order of TeFusionManager.
#include <openssl/sha.h>
#include <set>
#include <nlohmann/json.hpp>
#include "boundary.h"
#include "assemble_json/te_json_assemble.h"
#include "cache/te_cache_manager.h"
#include "common/compile_result_utils.h"
#include "common/tbe_op_info_cache.h"
#include "common/te_config_info.h"
#include "common/te_context_utils.h"
#include "graph/ge_context.h"
#include "python_adapter/python_api_call.h"

std::string sha256(const std::string &data) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char *>(data.data()), data.size(), digest);
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

namespace ge {
GEContext &GetContext() {
  static GEContext context;
  return context;
}
GEContext &GetThreadLocalContext() {
  return GetContext();
}
graphStatus GEContext::GetOption(const std::string &key, std::string &option) {
  const auto found = options.find(key);
  if (found == options.end()) return GRAPH_FAILED;
  option = found->second;
  return GRAPH_SUCCESS;
}
const std::string &GEContext::GetReadableName(const std::string &key) {
  static const std::map<std::string, std::string> names{
      {"ge.op_compiler_cache_dir", "--op_compiler_cache_dir"},   {"ge.op_compiler_cache_mode", "--op_compiler_cache_mode"},
      {"ge.opDebugLevel", "--op_debug_level"},                   {"ge.debugDir", "--debug_dir"},
      {"ge.exec.op_precision_mode", "--op_precision_mode"},      {"ge.opSelectImplmode", "--op_select_implmode"},
      {"ge.optypelistForImplmode", "--optypelist_for_implmode"}, {"op_debug_config", "--op_debug_config"}};
  const auto found = names.find(key);
  return found == names.end() ? key : found->second;
}
}  // namespace ge

// The results of CANN's closed Python parts.
namespace te {
namespace fusion {
PythonApiCall::PythonApiCall() : l1SpaceSize_(-1) {}
PythonApiCall::~PythonApiCall() {}
PythonApiCall &PythonApiCall::Instance() {
  static PythonApiCall calls;
  return calls;
}
bool PythonApiCall::GenerateStrSha256HashValue(const std::string &text, std::string &result) const {
  result = sha256(text);
  return true;
}
bool PythonApiCall::GetBinFileSha256Value(const char *data, const size_t size, std::string &result) const {
  result = sha256(std::string(data, size));
  return true;
}
int64_t PythonApiCall::GetL1SpaceSize() const {
  return -1;
}
bool PythonApiCall::UpdateSingleOpModule(const TbeOpInfo &info, std::string &module, std::string *path) {
  module = "impl." + info.GetOpType();
  if (path != nullptr) *path = "";
  return true;
}
}  // namespace fusion
}  // namespace te

namespace layer {
namespace {
using namespace te;
using namespace te::fusion;

ge::DataType data_type(const std::string &name) {
  static const std::map<std::string, ge::DataType> types{
      {"float32", ge::DT_FLOAT},  {"float", ge::DT_FLOAT},     {"float16", ge::DT_FLOAT16}, {"half", ge::DT_FLOAT16},
      {"fp16", ge::DT_FLOAT16},   {"int8", ge::DT_INT8},       {"int16", ge::DT_INT16},     {"int32", ge::DT_INT32},
      {"int64", ge::DT_INT64},    {"uint8", ge::DT_UINT8},     {"uint16", ge::DT_UINT16},   {"uint32", ge::DT_UINT32},
      {"uint64", ge::DT_UINT64},  {"double", ge::DT_DOUBLE},   {"bool", ge::DT_BOOL},       {"bfloat16", ge::DT_BF16}};
  const auto found = types.find(name);
  return found == types.end() ? ge::DT_UNDEFINED : found->second;
}

TbeOpTensor tensor_of(const Tensor &given, const std::string &name) {
  TbeOpTensor tensor(name, given.shape, given.type, given.format);
  tensor.SetOriginShape(given.origin_shape);
  tensor.SetOriginFormat(given.origin_format);
  tensor.SetCAxisValue(-1);
  if (!given.constant.empty()) tensor.SetConstValue(TbeAttrValue(name, given.constant));
  return tensor;
}

std::vector<TbeOpParam> parameters(const std::string &type, const char *name, const std::vector<Tensor> &given) {
  static const std::set<std::string> lists{"x AccumulateNV2", "x ConcatD", "y SplitD", "y SplitVD"};  // prototypes
  std::vector<TbeOpParam> made;
  std::vector<TbeOpTensor> tensors;
  for (const Tensor &each : given) {
    if (!each.absent) tensors.push_back(tensor_of(each, name + std::to_string(&each - given.data())));
    made.push_back(each.absent ? TbeOpParam(TT_OPT, {}) : TbeOpParam(TT_REQ, {tensors.back()}));
  }
  if (lists.count(name + (" " + type)) > 0) return {TbeOpParam(TT_DYN, tensors)};
  return made;
}

TbeAttrValue attribute(const Attribute &given) {
  const auto value = nlohmann::json::parse(given.value);
  const std::string &name = given.name;
  if (given.type == "bool") return TbeAttrValue(name, value.get<bool>());
  if (given.type == "int" || given.type == "data_type") {
    return value.is_number() ? TbeAttrValue(name, value.get<int64_t>()) : TbeAttrValue(name, value.dump());
  }
  if (given.type == "float") return TbeAttrValue(name, value.get<float>());
  if (given.type == "string") return TbeAttrValue(name, value.get<std::string>());
  if (given.type == "list_int") return TbeAttrValue(name, value.get<std::vector<int64_t>>());
  if (given.type == "list_float") return TbeAttrValue(name, value.get<std::vector<float>>());
  if (given.type == "list_bool") return TbeAttrValue(name, value.get<std::vector<bool>>());
  if (given.type == "list_string") return TbeAttrValue(name, value.get<std::vector<std::string>>());
  if (given.type == "list_list_int") return TbeAttrValue(name, value.get<std::vector<std::vector<int64_t>>>());
  return TbeAttrValue(name, given.value);
}

std::string text(const nlohmann::json &metadata, const char *field) {
  return metadata.contains(field) && metadata[field].is_string() ? metadata[field].get<std::string>() : "";
}

std::shared_ptr<Kernel> kernel(const CompileResultPtr &result) {
  if (result == nullptr || result->kernelBin == nullptr || result->jsonInfo == nullptr) return nullptr;
  auto made = std::make_shared<Kernel>();
  made->object.assign(reinterpret_cast<const char *>(result->kernelBin->GetBinData()),
                      result->kernelBin->GetBinDataSize());
  made->metadata = result->jsonInfo->dump(1);
  made->symbol = text(*result->jsonInfo, "kernelName");
  return made;
}
template <typename Utils>
auto knows_level(int) -> decltype(Utils::GetDeterministicLevel(), true) {
  return true;
}
template <typename>
bool knows_level(long) {
  return false;
}
}  // namespace

bool has_deterministic_level() {
  return knows_level<TeContextUtils>(0);
}

bool initialize(const Options &options) {
  ge::GetContext().options = options;
  ge::GetContext().options.erase("op_debug_config_te");  // FE passes it to TE only
  return TeConfigInfo::Instance().Initialize(options);
}

bool refresh() {
  return TeConfigInfo::Instance().RefreshConfigItems() && TeCacheManager::Instance().Initialize();
}

std::string kernel_meta() {
  return TeConfigInfo::Instance().GetKernelMetaParentDir();
}

std::string key(const Operator &given) {
  static std::vector<ge::NodePtr> nodes;  // the layer's caches keep raw pointers
  const auto node = std::make_shared<ge::Node>();
  nodes.push_back(node);
  const std::string &called = given.name.empty() ? given.type : given.name;  // SingleOpParser::CreateOpDesc
  node->description->name = called;
  node->description->type = given.type;
  auto info = std::make_shared<TbeOpInfo>(called, "", given.type, "AIcoreEngine");
  info->SetOpCoreType("AiCore");
  info->SetOpFuncName(given.type);
  info->SetNode(node);
  // The two statements of TbeInfoAssembler.
  info->SetOpImplMode(given.mode);
  info->SetOpDebugConfig(given.debug);
  TeConfigInfo::Instance().SetOpDebugConfig(given.debug);  // PreBuildManager
  for (const TbeOpParam &each : parameters(given.type, "x", given.inputs)) info->AddInput(each);
  for (const TbeOpParam &each : parameters(given.type, "y", given.outputs)) info->AddOutput(each);
  for (const Tensor &each : given.inputs) {
    if (each.absent) continue;
    node->description->inputs.push_back({{each.shape}, data_type(each.type)});
    node->sources.push_back(std::make_shared<ge::Node>());
    node->sources.back()->description->name = called + "_in_" + std::to_string(&each - given.inputs.data());
    node->sources.back()->description->type = each.constant.empty() ? "Data" : "Constant";
  }
  node->target = std::make_shared<ge::Node>();
  node->target->description->name = "Node_Output";
  node->target->description->type = "NetOutput";
  for (const Tensor &each : given.outputs) {
    node->description->outputs.push_back({{each.shape}, data_type(each.type)});
  }
  for (const Attribute &each : given.attributes) info->AddAttrValue(attribute(each));
  TbeOpInfoCache::Instance().UpdateTbeOpInfo(called, info);
  std::string json, name;
  const std::vector<ge::Node *> wanted{node.get()};
  return TeJsonAssemble::GenerateJsonAndKernelName(wanted, true, json, name) ? name : "";
}

std::shared_ptr<Kernel> match(const Operator &given, const std::string &name) {
  if (!given.debug.empty()) return nullptr;  // TeFusionManager::IsOpdebugCompile
  auto found = kernel(TeCacheManager::Instance().MatchCompileCache(name, false));
  if (found != nullptr) found->name = name;
  return found;
}

std::shared_ptr<Kernel> store(const std::string &metadata_path) {
  const CompileResultPtr result = CompileResultUtils::ParseCompileResult(metadata_path);
  TeCacheManager::Instance().SetCompileResult(result);
  return kernel(result);
}
}  // namespace layer
