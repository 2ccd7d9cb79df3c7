// The real parsers of FE, and the statements of TbeInfoAssembler and Configuration that apply their
// results to an operator. Those statements cannot be compiled on their own, so they are ours.
#include "boundary.h"
#include "common/config_parser/op_debug_config_parser.h"
#include "common/config_parser/op_impl_mode_config_parser.h"

struct FrontEnd::Parsers {
  Parsers(const std::string &collects, const std::string &opp) : debug(collects), modes(opp) {}
  fe::OpDebugConfigParser debug;
  fe::OpImplModeConfigParser modes;
};

bool FrontEnd::read(const Options &options, const std::string &opp) {
  const char *collects = getenv("NPU_COLLECT_PATH");
  const std::string collect_path = collects == nullptr ? "" : collects;
  parsers_ = std::make_shared<Parsers>(collect_path, opp + "/");
  if (parsers_->debug.InitializeFromOptions(options) != fe::SUCCESS) return false;
  parsers_->debug.SetOpDebugConfigEnv(collect_path);
  return parsers_->modes.InitializeFromOptions(options) == fe::SUCCESS;
}

void FrontEnd::apply(Operator &an_operator) const {
  parsers_->modes.GetOpImplMode(an_operator.name, an_operator.type, an_operator.mode);
  auto description = std::make_shared<ge::OpDesc>();
  description->name = an_operator.name;
  description->type = an_operator.type;
  if (parsers_->debug.IsOpDebugListOp(description)) an_operator.debug = parsers_->debug.GetOpDebugConfig();
}

std::string FrontEnd::debug_config() const {
  return parsers_->debug.GetOpDebugConfig();
}
