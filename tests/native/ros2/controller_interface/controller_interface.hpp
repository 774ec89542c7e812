// As much of ros2_control (Humble to Jazzy) as the recipe in docs/native.md uses, so that it can be compiled and called
// where there is no ROS. Signatures are those of ros2_control; the behaviour is the least that a test needs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rclcpp/rclcpp.hpp"

namespace rclcpp_lifecycle {
class State {};
namespace node_interfaces {
struct LifecycleNodeInterface {
  enum class CallbackReturn : uint8_t { SUCCESS = 97, FAILURE = 98, ERROR = 99 };
};
}  // namespace node_interfaces
class LifecycleNode : public rclcpp::Node {};
}  // namespace rclcpp_lifecycle

namespace hardware_interface {
inline constexpr char HW_IF_POSITION[] = "position";
inline constexpr char HW_IF_VELOCITY[] = "velocity";
class LoanedStateInterface {
 public:
  explicit LoanedStateInterface(double* value) : value_(value) {}
  double get_value() const { return *value_; }

 private:
  double* value_;
};
class LoanedCommandInterface {
 public:
  explicit LoanedCommandInterface(double* value) : value_(value) {}
  [[nodiscard]] bool set_value(double value) {
    *value_ = value;
    return true;
  }

 private:
  double* value_;
};
}  // namespace hardware_interface

namespace controller_interface {
enum class return_type : std::uint8_t { OK = 0, ERROR = 1 };
using CallbackReturn = rclcpp_lifecycle::node_interfaces::LifecycleNodeInterface::CallbackReturn;
enum class interface_configuration_type : std::uint8_t { ALL = 0, INDIVIDUAL = 1, NONE = 2 };
struct InterfaceConfiguration {
  interface_configuration_type type;
  std::vector<std::string> names = {};
};

class ControllerInterface {
 public:
  virtual ~ControllerInterface() = default;
  virtual InterfaceConfiguration command_interface_configuration() const = 0;
  virtual InterfaceConfiguration state_interface_configuration() const = 0;
  virtual CallbackReturn on_init() = 0;
  virtual CallbackReturn on_configure(const rclcpp_lifecycle::State&) { return CallbackReturn::SUCCESS; }
  virtual CallbackReturn on_activate(const rclcpp_lifecycle::State&) { return CallbackReturn::SUCCESS; }
  virtual CallbackReturn on_deactivate(const rclcpp_lifecycle::State&) { return CallbackReturn::SUCCESS; }
  virtual return_type update(const rclcpp::Time& time, const rclcpp::Duration& period) = 0;
  std::shared_ptr<rclcpp_lifecycle::LifecycleNode> get_node() const { return node_; }
  unsigned int get_update_rate() const { return update_rate_; }

  unsigned int update_rate_ = 200;
  std::vector<hardware_interface::LoanedCommandInterface> command_interfaces_;
  std::vector<hardware_interface::LoanedStateInterface> state_interfaces_;

 private:
  std::shared_ptr<rclcpp_lifecycle::LifecycleNode> node_ = std::make_shared<rclcpp_lifecycle::LifecycleNode>();
};
}  // namespace controller_interface
