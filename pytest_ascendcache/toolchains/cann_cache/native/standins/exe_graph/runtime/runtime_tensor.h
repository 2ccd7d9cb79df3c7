#pragma once
namespace gert {
class Tensor {};
}  // namespace gert
