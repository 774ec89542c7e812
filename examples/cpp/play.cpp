// Lets a compiled policy drive a robot in MuJoCo, and says how it went.
// Usage: play ROBOT.xml [SECONDS [PREFIX [INPUT=1,2,3 ...]]]; a file is written if PLAY_TRACE names one.
#include ASHORE_HEADER
#include POLICY_HEADER

#include <cstdio>
#include <cstdlib>
#include <deque>

#include "mujoco_robot.hpp"

namespace {

bool is(const ashore_port& port, const char* kind) { return port.kind != nullptr && !std::strcmp(port.kind, kind); }

std::vector<double> numbers(const char* text) {
  std::vector<double> values;
  for (char* end = nullptr; *text != '\0'; text = *end == ',' ? end + 1 : end) {
    values.push_back(std::strtod(text, &end));
    if (end == text) throw std::runtime_error("expected numbers with commas between, got '" + std::string(text) + "'");
  }
  return values;
}

// The ports of both rates; an input may be of both.
void collect(const ashore_port* ports, std::size_t count, std::vector<const ashore_port*>& found) {
  for (std::size_t i = 0; i < count; ++i) {
    bool known = false;
    for (const ashore_port* one : found) known = known || !std::strcmp(one->name, ports[i].name);
    if (!known) found.push_back(&ports[i]);
  }
}

// Which array is which port: joints by kind and name, sensors by the name in the port's connection, the base by kind.
void measure(const ashore_port& port, MujocoRobot& simulation, ashore::Robot& robot) {
  const std::string owner = port.connection != nullptr ? port.connection : "";
  int width = 0;
  const int at = simulation.sensor(owner.substr(owner.rfind(':') + 1), width);
  if (is(port, "state/joint/position")) {
    robot.reads(port.name, simulation.names, simulation.position.data(), simulation.position.size());
  } else if (is(port, "state/joint/velocity")) {
    robot.reads(port.name, simulation.names, simulation.velocity.data(), simulation.velocity.size());
  } else if (at >= 0) {
    robot.reads(port.name, simulation.sensors.data() + at, static_cast<std::size_t>(width));
  } else if (is(port, "state/body/gravity")) {
    robot.reads(port.name, simulation.gravity, 3);
  } else if (is(port, "state/body/angular_velocity")) {
    robot.reads(port.name, simulation.angular_velocity, 3);
  } else if (is(port, "state/body/linear_velocity")) {
    robot.reads(port.name, simulation.linear_velocity, 3);
  }
}

int play(int argc, char** argv) {
  const ashore_contract& contract = POLICY_CONTRACT;
  MujocoRobot simulation(argv[1], argc > 3 ? argv[3] : "");
  const double seconds = argc > 2 ? std::atof(argv[2]) : 10.0;
  for (std::size_t i = 0; i < contract.joint_count; ++i) {
    const ashore_joint& one = contract.joints[i];
    simulation.configure(one.name, one.kp, one.kd, one.effort_limit, one.default_position);
  }

  ashore::Robot robot;
  std::deque<std::vector<double>> commands;
  std::vector<const ashore_port*> inputs, outputs;
  collect(contract.step_inputs, contract.step_input_count, inputs);
  collect(contract.substep_inputs, contract.substep_input_count, inputs);
  collect(contract.step_outputs, contract.step_output_count, outputs);
  collect(contract.substep_outputs, contract.substep_output_count, outputs);
  for (const ashore_port* port : inputs) {
    const std::string begin = std::string(port->name) + "=";
    int given = 4;
    while (given < argc && std::strncmp(argv[given], begin.c_str(), begin.size())) ++given;
    if (given < argc) {  // in the order of the package
      commands.push_back(numbers(argv[given] + begin.size()));
      robot.reads(port->name, ashore::names_of(*port), commands.back().data(), commands.back().size());
    } else {
      measure(*port, simulation, robot);  // what it cannot is an error below
    }
  }
  bool positions = false;
  for (const ashore_port* port : outputs) {
    if (is(*port, "target/joint/position")) {
      robot.writes(port->name, simulation.driven, simulation.target.data(), simulation.target.size());
      positions = true;
    } else if (is(*port, "target/joint/effort")) {
      robot.writes(port->name, simulation.driven, simulation.effort.data(), simulation.effort.size());
    }
  }
  ashore::Bound bound(contract, robot, ashore::Guard{});

  const double tick_s = contract.policy_dt_s / contract.decimation;
  const int steps = static_cast<int>(std::lround(tick_s / simulation.model().opt.timestep));
  if (steps < 1 || std::fabs(steps * simulation.model().opt.timestep - tick_s) > 1e-6 * tick_s) {
    throw std::runtime_error("the time step of the model does not divide that of the package");
  }
  const char* const traced = std::getenv("PLAY_TRACE");
  std::FILE* const trace = traced != nullptr ? std::fopen(traced, "w") : nullptr;
  const long ticks = std::lround(seconds / tick_s);
  long tick = 0;
  bool survived = true;
  bound.reset();
  simulation.reset(positions);
  for (; tick < ticks && survived; ++tick) {
    simulation.read();
    if (!bound.tick()) break;
    simulation.advance(steps);
    survived = simulation.upright();
    for (int i = 0; trace != nullptr && i < simulation.model().nq; ++i) {
      std::fprintf(trace, "%.17g%c", simulation.data().qpos[i], i + 1 < simulation.model().nq ? ' ' : '\n');
    }
  }
  if (trace != nullptr) std::fclose(trace);
  if (!bound.last()) {
    char why[200];
    bound.last().describe(why, sizeof why);
    std::printf("%s: %s\n", ashore::name_of(bound.last().action), why);
  }
  survived = survived && bound.last();
  std::printf("%s: %s after %.2f s\n", contract.name, survived ? "survived" : "fell",
              static_cast<double>(tick) * tick_s);
  simulation.read();
  for (std::size_t i = 0; i < simulation.names.size(); ++i) {
    std::printf("  %-20s %7.3f\n", simulation.names[i].c_str(), simulation.position[i]);
  }
  return survived ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("usage: play ROBOT.xml [SECONDS [PREFIX [INPUT=1,2,3 ...]]]");
    return play(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
