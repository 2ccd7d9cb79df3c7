// A command with ATC's interface around the real cache layer. Command line, single-operator JSON, .om
// and messages are ours; lookup, store, purge and aging are CANN's.
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include "boundary.h"
#include "kernels.h"
#include "om.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace {
struct Refusal {
  std::string text;
};

struct Option {
  const char *flag, *key, *initial;
  std::vector<std::string> values;
};

const std::vector<Option> &known_options() {
  static const std::vector<Option> all{
      {"singleop", "", "", {}},
      {"output", "", "", {}},
      {"log", "", "null", {"null", "debug", "info", "warning", "error"}},
      {"soc_version", "ge.socVersion", "", {}},
      {"op_compiler_cache_mode", "ge.op_compiler_cache_mode", "disable", {"disable", "enable", "force"}},
      {"op_compiler_cache_dir", "ge.op_compiler_cache_dir", "", {}},
      {"op_debug_level", "ge.opDebugLevel", "0", {"0", "1", "2", "3", "4"}},
      {"op_debug_config", "op_debug_config", "", {}},
      {"debug_dir", "ge.debugDir", "", {}},
      {"op_select_implmode",
       "ge.opSelectImplmode",
       "",
       {"high_performance", "high_performance_for_all", "high_precision", "high_precision_for_all"}},
      {"optypelist_for_implmode", "ge.optypelistForImplmode", "", {}},
      {"op_precision_mode", "ge.exec.op_precision_mode", "", {}},
      {"deterministic", "ge.deterministic", "0", {"0", "1"}},
      {"deterministic_level", "ge.deterministicLevel", "", {"0", "1", "2"}},
      {"aicore_num", "ge.aicoreNum", "", {}}};
  return all;
}

const Option &option(const std::string &flag) {
  for (const Option &each : known_options()) {
    if (flag == each.flag && (flag != "deterministic_level" || layer::has_deterministic_level())) return each;
  }
  throw Refusal{"ERROR: unknown command line flag '" + flag + "'"};
}

using Arguments = std::map<std::string, std::string>;

void check(const Option &known, const std::string &value) {
  // An empty option without a default counts as absent.
  if (known.values.empty() || (value.empty() && *known.initial == '\0')) return;
  std::string range;
  for (const std::string &each : known.values) {
    if (each == value) return;
    range += "[" + each + "] ";
  }
  throw Refusal{"E10001: Value [" + value + "] for parameter [--" + known.flag +
                "] is invalid. Reason: It must be in the range " + range + "."};
}

Arguments read_arguments(int count, char **words) {
  Arguments given;
  for (const Option &each : known_options()) given[each.flag] = each.initial;
  std::set<std::string> named;
  for (int index = 1; index < count; ++index) {
    const std::string word = words[index];
    const size_t equals = word.find('=');
    if (word.rfind("--", 0) != 0 || equals == std::string::npos) {
      throw Refusal{"E10001: [" + word + "] is no option; write --name=value."};
    }
    const Option &known = option(word.substr(2, equals - 2));
    const std::string value = word.substr(equals + 1);
    check(known, value);
    given[known.flag] = value;
    named.insert(known.flag);
  }
  for (const char *needed : {"singleop", "output", "soc_version"}) {
    if (given[needed].empty()) {
      throw Refusal{"E10054: Parameter [--" + std::string(needed) + "] is missing; give it a value."};
    }
  }
  if (!given["optypelist_for_implmode"].empty() && given["op_select_implmode"].empty()) {
    throw Refusal{
        "E10001: Value [] for parameter [--op_select_implmode] is invalid. Reason: Parameters --op_select_implmode "
        "and --optypelist_for_implmode must be set at the same time."};
  }
  return given;
}

std::vector<Tensor> tensors(const json &given) {
  std::vector<Tensor> all;
  for (const json &each : given) {
    Tensor tensor;
    tensor.format = each.at("format");
    tensor.type = each.at("type");
    tensor.shape = each.at("shape").get<std::vector<int64_t>>();
    tensor.origin_format = each.value("origin_format", tensor.format);
    tensor.origin_shape = each.value("origin_shape", tensor.shape);
    tensor.absent = tensor.type == "UNDEFINED";
    if (each.value("is_const", false)) tensor.constant = each.value("const_value", std::vector<int64_t>());
    all.push_back(tensor);
  }
  return all;
}

std::string om_name(size_t index, const Operator &given) {
  const auto plain = [](const std::string &name) {
    return name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
           std::string::npos;
  };
  const bool named = !given.name.empty() && plain(given.name) && given.name != "." && given.name != "..";
  std::string name = named ? given.name : std::to_string(index) + "_" + given.type;
  if (!named) {
    for (const auto *tensors : {&given.inputs, &given.outputs}) {
      for (const auto &tensor : *tensors) {
        name += "_" + tensor.format;
        for (const auto extent : tensor.shape) name += "_" + std::to_string(extent);
      }
    }
  }
  return name.substr(0, 128) + ".om";
}

std::vector<Operator> read_operators(const std::string &path) {
  if (!fs::is_regular_file(path)) throw Refusal{"E10024: Failed to open file [" + path + "] for parameter [--singleop]."};
  std::vector<Operator> all;
  try {
    const json document = json::parse(read_file(path));
    for (const json &each : document) {
      if (each.contains("compile_flag")) continue;
      Operator made;
      made.type = each.at("op");
      made.name = each.value("name", "");
      made.json = each.dump();
      made.inputs = tensors(each.value("input_desc", json::array()));
      made.outputs = tensors(each.value("output_desc", json::array()));
      for (const json &attribute : each.value("attr", json::array())) {
        made.attributes.push_back({attribute.at("name"), attribute.at("type"), attribute.at("value").dump()});
      }
      // FE passes attributes on in the order of the operator's description.
      std::sort(made.attributes.begin(), made.attributes.end(),
                [](const Attribute &one, const Attribute &other) { return one.name < other.name; });
      all.push_back(made);
    }
  } catch (const json::exception &error) {
    throw Refusal{"E10025: [" + path + "] for parameter [--singleop] is not as expected: " + error.what() + "."};
  }
  if (all.empty()) throw Refusal{"E10026: [" + path + "] for parameter [--singleop] names no operator."};
  return all;
}

void deliver(const fs::path &directory, size_t index, const Operator &given, const std::string &soc,
             const Kernel &kernel) {
  const json manifest{{"format", "ascendcache-om"}, {"version", 1},           {"operator", json::array({json::parse(given.json)})},
                      {"soc", soc},                 {"symbol", kernel.symbol}, {"sha256", sha256(kernel.object)}};
  const std::string data = archive(
      {{"manifest.json", manifest.dump(1)}, {"kernel.o", kernel.object}, {"kernel.json", kernel.metadata}});
  const fs::path path = directory / om_name(index, given);
  const fs::path temporary = path.string() + "." + std::to_string(getpid());
  write_file(temporary, data);
  fs::rename(temporary, path);
}

// The kernel_meta of this process. It is removed at the end, except for what debugging keeps.
class WorkDirectory {
 public:
  explicit WorkDirectory(bool keeps) : path_(layer::kernel_meta()), keeps_(keeps) {
    // Another run in the same directory may remove the parent in between.
    for (int attempt = 0; attempt < 100 && !fs::is_directory(path_); ++attempt) {
      std::error_code lost;
      fs::create_directories(path_, lost);
    }
  }
  ~WorkDirectory() {
    std::error_code ignored;
    for (const auto &each : fs::directory_iterator(path_, ignored)) {
      const std::string name = each.path().filename();
      bool kept = keeps_;
      for (const std::string &debugged : debugged_) kept = kept || name.rfind(debugged, 0) == 0;
      if (!kept) fs::remove(each.path(), ignored);
    }
    rmdir(path_.c_str());
    rmdir(path_.parent_path().c_str());
  }
  void keep(const std::string &name) { debugged_.insert(name); }
  std::string text() const { return path_.string(); }

 private:
  fs::path path_;
  bool keeps_;
  std::set<std::string> debugged_;
};

void run(const Arguments &given) {
  Options options;
  for (const Option &each : known_options()) {
    if (*each.key != '\0' && !given.at(each.flag).empty()) options[each.key] = given.at(each.flag);
  }
  std::vector<Operator> operators = read_operators(given.at("singleop"));
  std::error_code failed;
  fs::create_directories(given.at("output"), failed);
  if (failed) throw Refusal{"E40023: Path [" + given.at("output") + "] for [--output] is invalid. Reason: " + failed.message() + "."};

  const char *opp = getenv("ASCEND_OPP_PATH");
  FrontEnd front_end;
  if (!front_end.read(options, opp == nullptr ? "" : opp)) throw Refusal{""};
  for (Operator &each : operators) front_end.apply(each);
  options["op_debug_config_te"] = front_end.debug_config();  // TbeOpStoreAdapter::InitializeTeFusion
  options["ge.deterministic"] = given.at("deterministic");
  if (!layer::initialize(options)) throw Refusal{""};

  // ATC builds one operator after the other, each as a graph of its own, so that the kernel of the first is
  // stored before the second is looked up.
  WorkDirectory work(given.at("op_debug_level") != "0");
  std::map<std::string, std::shared_ptr<Kernel>> compiled;  // TeFusionManager's opKernelMap_
  std::vector<std::shared_ptr<Kernel>> kernels;
  for (const Operator &each : operators) {
    const std::string what = "Op [" + each.name + "]. (optype: [" + each.type + "]) ";
    if (!layer::refresh()) throw Refusal{""};
    const std::string name = layer::key(each);
    if (name.empty()) throw Refusal{"E40021: Failed to compile " + what};
    if (!layer::refresh()) throw Refusal{""};
    std::shared_ptr<Kernel> kernel = layer::match(each, name);
    if (kernel == nullptr) kernel = compiled[name];
    if (kernel == nullptr) {
      std::string why;
      if (!compile(each, options, name, work.text(), why)) throw Refusal{"E40021: Failed to compile " + what + why};
      if (!each.debug.empty()) work.keep(name);
      kernel = compiled[name] = layer::store(work.text() + "/" + name + ".json");
    }
    if (kernel == nullptr) throw Refusal{"E40021: Failed to read the kernel of " + what};
    kernels.push_back(kernel);
  }
  for (size_t index = 0; index < operators.size(); ++index) {
    deliver(given.at("output"), index, operators[index], given.at("soc_version"), *kernels[index]);
  }
}
}  // namespace

int main(int count, char **words) {
  try {
    run(read_arguments(count, words));
  } catch (const Refusal &refusal) {
    printf("ATC run failed, Please check the detail log.\n");
    if (!refusal.text.empty()) printf("%s\n", refusal.text.c_str());
    print_messages();
    return 255;
  }
  printf("ATC run success, welcome to the next use.\n");
  print_messages();
  return 0;
}
