// Calls the recipe for ros2_control cycle by cycle, with stand-ins for ROS.
#include <cmath>
#include <cstring>

#include "ashore_controller.cpp"

#define CHECK(what) \
  if (!(what)) std::printf("line %d: %s\n", __LINE__, #what), ++failures

int main() {
  using controller_interface::CallbackReturn;
  using controller_interface::return_type;
  int failures = 0;
  const rclcpp_lifecycle::State state;
  double position[2] = {0.1, -0.2}, velocity[2] = {0.0, 0.0}, command[2] = {9.0, 9.0};

  AshoreController controller;
  CHECK(controller.on_init() == CallbackReturn::SUCCESS);
  const auto commands = controller.command_interface_configuration().names;
  const auto states = controller.state_interface_configuration().names;
  CHECK((commands == std::vector<std::string>{"shoulder/position", "elbow/position"}));
  CHECK((states == std::vector<std::string>{"shoulder/position", "elbow/position", "shoulder/velocity", "elbow/velocity"}));
  controller.update_rate_ = 100;
  CHECK(controller.on_configure(state) == CallbackReturn::ERROR);
  controller.update_rate_ = 200;
  CHECK(controller.on_configure(state) == CallbackReturn::SUCCESS);
  for (double& one : position) controller.state_interfaces_.emplace_back(&one);
  for (double& one : velocity) controller.state_interfaces_.emplace_back(&one);
  for (double& one : command) controller.command_interfaces_.emplace_back(&one);
  CHECK(controller.on_activate(state) == CallbackReturn::SUCCESS);

  ashore_first policy = {};
  ashore_first_step_in in = {};
  ashore_first_step_out out = {};
  ashore_first_reset(&policy);
  const rclcpp::Time now;
  for (int tick = 0; tick < 20; ++tick) {
    if (tick % 4 == 0) {
      for (int i = 0; i < 2; ++i) in.joint_pos[i] = static_cast<float>(position[i]);
      CHECK(ashore_first_step(&policy, &in, &out) == ASHORE_OK);
    }
    CHECK(controller.update(now, rclcpp::Duration(0.005)) == return_type::OK);
    for (int i = 0; i < 2; ++i) CHECK(command[i] == static_cast<double>(out.joint_target[i]));
    position[0] += 0.01;
  }
  const double asked = command[0];
  position[0] = NAN;
  CHECK(controller.update(now, rclcpp::Duration(0.005)) == return_type::ERROR);
  CHECK(command[0] == asked);
  position[0] = 0.0;
  CHECK(controller.on_activate(state) == CallbackReturn::SUCCESS);
  CHECK(controller.update(now, rclcpp::Duration(0.005)) == return_type::OK);
  CHECK(controller.update(now, rclcpp::Duration(0.2)) == return_type::ERROR);
  return failures;
}
