// Stand-in: names of element types. Written for this project.
#pragma once
#include <map>
#include "graph/types.h"
namespace ge {
class TypeUtils {
 public:
  static std::string DataTypeToSerialString(DataType type) {
    static const std::map<DataType, std::string> names{
        {DT_FLOAT, "DT_FLOAT"},   {DT_FLOAT16, "DT_FLOAT16"}, {DT_INT8, "DT_INT8"},     {DT_INT16, "DT_INT16"},
        {DT_INT32, "DT_INT32"},   {DT_INT64, "DT_INT64"},     {DT_UINT8, "DT_UINT8"},   {DT_UINT16, "DT_UINT16"},
        {DT_UINT32, "DT_UINT32"}, {DT_UINT64, "DT_UINT64"},   {DT_DOUBLE, "DT_DOUBLE"}, {DT_BOOL, "DT_BOOL"},
        {DT_BF16, "DT_BF16"}};
    const auto found = names.find(type);
    return found == names.end() ? "UNDEFINED" : found->second;
  }
  static std::string FormatToSerialString(Format format) { return format == FORMAT_ND ? "ND" : "RESERVED"; }
};
}  // namespace ge
