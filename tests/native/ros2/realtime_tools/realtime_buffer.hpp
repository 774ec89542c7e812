#pragma once
namespace realtime_tools {
template <class T>
class RealtimeBuffer {
 public:
  void writeFromNonRT(const T& value) { value_ = value; }
  T* readFromRT() { return &value_; }

 private:
  T value_{};
};
}  // namespace realtime_tools
