#pragma once

#include <any>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

namespace rclcpp {
class Duration {
 public:
  explicit Duration(double seconds) : seconds_(seconds) {}
  double seconds() const { return seconds_; }

 private:
  double seconds_;
};
class Time {};
struct Logger {};
class SystemDefaultsQoS {};
template <class Message>
class Subscription {
 public:
  using SharedPtr = std::shared_ptr<Subscription>;
  explicit Subscription(std::function<void(std::shared_ptr<Message>)> call) : call(std::move(call)) {}
  std::function<void(std::shared_ptr<Message>)> call;
};
class Node {
 public:
  Logger get_logger() const { return {}; }
  template <class Message, class Call>
  typename Subscription<Message>::SharedPtr create_subscription(const std::string&, const SystemDefaultsQoS&, Call call) {
    return std::make_shared<Subscription<Message>>(call);
  }
};
}  // namespace rclcpp

#define RCLCPP_ERROR(logger, ...) ((void)(logger), std::printf(__VA_ARGS__), std::printf("\n"))
