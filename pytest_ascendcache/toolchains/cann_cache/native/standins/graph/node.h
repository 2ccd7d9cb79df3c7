// The smallest graph that the key needs: a node with tensors and attributes, the Data nodes that its
// inputs come from, and the NetOutput that its outputs go to. Written for this project.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include "graph/types.h"
// GE's headers do this, and the sources rely on it.
using std::map;
using std::pair;
using std::string;
using std::vector;
namespace ge {
class Node;
class OpDesc;
class ComputeGraph;
using NodePtr = std::shared_ptr<Node>;
using ConstNodePtr = std::shared_ptr<const Node>;
using OpDescPtr = std::shared_ptr<OpDesc>;
using ConstOpDescPtr = std::shared_ptr<const OpDesc>;
using ComputeGraphPtr = std::shared_ptr<ComputeGraph>;

struct GeShape {
  std::vector<int64_t> dims;
  std::vector<int64_t> GetDims() const { return dims; }
};
struct GeTensorDesc {
  GeShape shape;
  DataType type = DT_FLOAT;
  const GeShape &GetShape() const { return shape; }
  DataType GetDataType() const { return type; }
};
using GeTensorDescPtr = std::shared_ptr<GeTensorDesc>;

struct Attributes {
  std::map<std::string, std::string> strings;
  std::map<std::string, int64_t> numbers;
  std::map<std::string, std::vector<std::string>> lists;
};
class OpDesc {
 public:
  std::string name, type;
  std::vector<GeTensorDesc> inputs, outputs;
  Attributes attributes;
  bool HasAttr(const std::string &key) const {
    return attributes.strings.count(key) + attributes.numbers.count(key) + attributes.lists.count(key) > 0;
  }
  const std::string &GetName() const { return name; }
  const char *GetNamePtr() const { return name.c_str(); }
  const std::string &GetType() const { return type; }
  const char *GetTypePtr() const { return type.c_str(); }
  int64_t GetId() const { return 0; }
  size_t GetInputsSize() const { return inputs.size(); }
  size_t GetOutputsSize() const { return outputs.size(); }
  const GeTensorDesc &GetInputDesc(size_t index) const { return inputs.at(index); }
  GeTensorDescPtr GetOutputDescPtr(size_t index) const { return std::make_shared<GeTensorDesc>(outputs.at(index)); }
  std::vector<GeTensorDesc> GetAllOutputsDesc() const { return outputs; }
  std::string GetInputNameByIndex(size_t index) const { return "x" + std::to_string(index); }
  std::string GetOutputNameByIndex(size_t index) const { return "y" + std::to_string(index); }
};
class Anchor;
using AnchorPtr = std::shared_ptr<Anchor>;
using InDataAnchorPtr = AnchorPtr;
using OutDataAnchorPtr = AnchorPtr;
using ControlAnchorPtr = AnchorPtr;
using OutControlAnchorPtr = AnchorPtr;
class Anchor {
 public:
  int index = 0;
  NodePtr owner;
  AnchorPtr peer;
  std::vector<AnchorPtr> readers;
  int GetIdx() const { return index; }
  NodePtr GetOwnerNode() const { return owner; }
  std::vector<AnchorPtr> GetPeerInDataAnchors() const { return readers; }
  std::vector<AnchorPtr> GetPeerInControlAnchors() const { return {}; }
  AnchorPtr GetPeerOutAnchor() const { return peer; }
};
class ComputeGraph {
 public:
  Attributes attributes;
  std::string GetName() const { return "ascendcache"; }
  uint32_t GetSessionID() const { return 0; }
  uint32_t GetGraphID() const { return 0; }
};
class Node : public std::enable_shared_from_this<Node> {
 public:
  OpDescPtr description = std::make_shared<OpDesc>();
  std::vector<NodePtr> sources;  // one for each input
  NodePtr target;                // of all outputs
  OpDescPtr GetOpDesc() const { return description; }
  const std::string &GetName() const { return description->name; }
  const char *GetNamePtr() const { return description->name.c_str(); }
  const std::string &GetType() const { return description->type; }
  const char *GetTypePtr() const { return description->type.c_str(); }
  ComputeGraphPtr GetOwnerComputeGraph() const { return std::make_shared<ComputeGraph>(); }
  size_t GetAllInDataAnchorsSize() const { return description->inputs.size(); }
  std::vector<AnchorPtr> GetAllInDataAnchors() const {
    std::vector<AnchorPtr> made = anchors(sources.size());
    for (size_t index = 0; index < made.size(); ++index) made[index]->peer = sources[index]->anchor(0);
    return made;
  }
  std::vector<AnchorPtr> GetAllOutDataAnchors() const {
    std::vector<AnchorPtr> made = anchors(description->outputs.size());
    for (size_t index = 0; target != nullptr && index < made.size(); ++index) {
      made[index]->readers = {target->anchor(index)};
    }
    return made;
  }
  AnchorPtr GetInDataAnchor(size_t index) const { return GetAllInDataAnchors().at(index); }
  AnchorPtr GetOutDataAnchor(size_t index) const { return anchor(index); }
  AnchorPtr GetOutControlAnchor() const { return anchor(0); }
  std::vector<NodePtr> GetInDataNodes() const { return sources; }
  std::vector<NodePtr> GetOutDataNodes() const { return std::vector<NodePtr>(target != nullptr, target); }

 private:
  AnchorPtr anchor(size_t index) const {
    auto made = std::make_shared<Anchor>();
    made->index = static_cast<int>(index);
    made->owner = std::const_pointer_cast<Node>(shared_from_this());
    return made;
  }
  std::vector<AnchorPtr> anchors(size_t count) const {
    std::vector<AnchorPtr> made;
    for (size_t index = 0; index < count; ++index) made.push_back(anchor(index));
    return made;
  }
};
class AttrUtils {
 public:
  template <typename Owner>
  static bool GetStr(const Owner &owner, const std::string &name, std::string &value) {
    return take(owner->attributes.strings, name, value);
  }
  template <typename Owner>
  static bool GetListStr(const Owner &owner, const std::string &name, std::vector<std::string> &value) {
    return take(owner->attributes.lists, name, value);
  }
  template <typename Owner, typename Number>
  static bool GetInt(const Owner &owner, const std::string &name, Number &value) {
    return take(owner->attributes.numbers, name, value);
  }
  template <typename Owner>
  static bool GetBool(const Owner &owner, const std::string &name, bool &value) {
    return take(owner->attributes.numbers, name, value);
  }

 private:
  template <typename Map, typename Value>
  static bool take(const Map &values, const std::string &name, Value &value) {
    const auto found = values.find(name);
    if (found == values.end()) return false;
    value = found->second;
    return true;
  }
};
}  // namespace ge
