// The values that the command, the front end's parsers and the cache layer exchange. They are plain,
// because the two halves of the vendor's sources need include paths that exclude each other.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using Options = std::map<std::string, std::string>;

struct Tensor {
  std::string type, format;
  std::vector<int64_t> shape;
  std::string origin_format;
  std::vector<int64_t> origin_shape;
  std::vector<int64_t> constant;
  bool absent = false;
};

struct Attribute {
  std::string name, type, value;  // value as JSON text
};

struct Operator {
  std::string type, name, json;  // json: the request for this one operator
  std::vector<Tensor> inputs, outputs;
  std::vector<Attribute> attributes;
  std::string mode, debug;  // implementation mode and debug configuration, set by the front end
};

struct Kernel {
  std::string name, symbol, object, metadata;
};

// frontend.cc: the real parsers of op_debug_config and of the implementation modes.
class FrontEnd {
 public:
  // Returns false if a parser refuses an option; it has reported why.
  bool read(const Options &options, const std::string &opp);
  void apply(Operator &an_operator) const;
  std::string debug_config() const;

 private:
  struct Parsers;
  std::shared_ptr<Parsers> parsers_;
};

// layer.cc: the real cache layer and the real key.
namespace layer {
// Whether this release knows --deterministic_level.
bool has_deterministic_level();
bool initialize(const Options &options);
bool refresh();
// The directory in which this process compiles.
std::string kernel_meta();
// The name of the operator's entry; empty if the key cannot be made.
std::string key(const Operator &an_operator);
std::shared_ptr<Kernel> match(const Operator &an_operator, const std::string &name);
// Moves the files of a compile into the cache.
std::shared_ptr<Kernel> store(const std::string &metadata_path);
}  // namespace layer

std::string sha256(const std::string &data);

// messages.cc
void print_messages();
