// Drives a robot with a compiled policy, in C++17 and with nothing but the standard library.
//
// Whatever can go wrong with names, sizes and types goes wrong in the constructor of Bound, as a BindError that lists
// both sides. After that nothing is allocated, nothing is thrown, and every call says whether its result may be used.
//
//   ashore::Robot robot;
//   robot.reads("state/joint/position", joints, q, 12).writes("target/joint/position", joints, target, 12);
//   ashore::Bound bound(ashore_go1_contract, robot, ashore::Guard{});
//   bound.reset();
//   ashore::Outcome outcome = bound.tick(age_s);  // every physics_dt_s: fill q before, send target after
#ifndef ASHORE_HPP
#define ASHORE_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ashore.h"

namespace ashore {

// A robot and a package that do not fit, or a library that this header does not know.
class BindError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the robot shall do after a call: `act` on what was written, or one of the others, with nothing written.
enum class Action : unsigned char { act, hold, damp, stop };

inline const char* name_of(Action action) noexcept {
  constexpr const char* names[] = {"act", "hold", "damp", "stop"};
  return names[static_cast<unsigned char>(action)];
}

enum class Cause : unsigned char {
  none,
  not_reset,      // the first call was not reset()
  not_decided,    // a substep before the first step after a reset
  no_substeps,    // a substep of a package that has none
  too_old,        // the measurements
  not_finite_in,  // an input is NaN or infinite
  not_finite_out, // an output or a state would be
  input_limit,    // an input is outside of the limits in the package
  output_limit,   // an output is
};

// What trips, and what the robot does then. Values that are not finite always trip, unless their port allows them.
struct Guard {
  Action on_trip = Action::hold;
  bool limits = true;  // whether the limits of inputs and outputs in the package are kept to
  double max_age_s = std::numeric_limits<double>::infinity();  // the oldest that a measurement may be
};

namespace detail {

// The length of the last axis, which names, units and limits go by.
inline std::size_t width_of(const ashore_port& port) noexcept { return port.rank > 0 ? port.shape[port.rank - 1] : 1; }

}  // namespace detail

// What became of a call.
struct Outcome {
  Action action = Action::act;
  Cause cause = Cause::none;
  const ashore_port* port = nullptr;  // where, if a port is to blame; states are ports too
  std::size_t element = 0;
  double value = 0.0;  // what was found, for not_finite_in and the limits; the age for too_old
  double lower = 0.0;
  double upper = 0.0;

  explicit operator bool() const noexcept { return action == Action::act; }

  // Writes why, as text, into `text`, which ends with a zero in any case. Allocates nothing.
  void describe(char* text, std::size_t size) const noexcept {
    char where[96] = "";
    if (port != nullptr) {
      const char* const label = port->names != nullptr ? port->names[element % detail::width_of(*port)] : nullptr;
      std::snprintf(where, sizeof where, "'%s'[%zu]%s%s%s", port->name, element, label != nullptr ? " (" : "",
                    label != nullptr ? label : "", label != nullptr ? ")" : "");
    }
    switch (cause) {
      case Cause::none: std::snprintf(text, size, "all is well"); break;
      case Cause::not_reset: std::snprintf(text, size, "call reset() first"); break;
      case Cause::not_decided: std::snprintf(text, size, "substep before the first step after a reset"); break;
      case Cause::no_substeps: std::snprintf(text, size, "the package has no stage at the substep rate"); break;
      case Cause::too_old:
        if (std::isnan(value)) {
          std::snprintf(text, size, "nobody said how old the measurements are; the most is %g s", upper);
        } else {
          std::snprintf(text, size, "the oldest measurement is %g s old; the most is %g s", value, upper);
        }
        break;
      case Cause::not_finite_in: std::snprintf(text, size, "input %s is %g; expected a finite value", where, value); break;
      case Cause::not_finite_out:
        std::snprintf(text, size, "%s would not be finite; the state is unchanged", port != nullptr ? where : "a result");
        break;
      case Cause::input_limit:
      case Cause::output_limit:
        std::snprintf(text, size, "%s %s is %g, outside of %g to %g", cause == Cause::input_limit ? "input" : "output",
                      where, value, lower, upper);
        break;
    }
  }
};

namespace detail {

template <class T>
constexpr ashore_dtype dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return ASHORE_BOOL;
  else if constexpr (std::is_same_v<T, float>) return ASHORE_FLOAT32;
  else if constexpr (std::is_same_v<T, double>) return ASHORE_FLOAT64;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    return sizeof(T) == 1 ? ASHORE_INT8 : sizeof(T) == 2 ? ASHORE_INT16 : sizeof(T) == 4 ? ASHORE_INT32 : ASHORE_INT64;
  else {
    static_assert(std::is_integral_v<T>, "values are numbers: float, double, integers or bool");
    return sizeof(T) == 1 ? ASHORE_UINT8 : sizeof(T) == 2 ? ASHORE_UINT16 : sizeof(T) == 4 ? ASHORE_UINT32 : ASHORE_UINT64;
  }
}

inline const char* name_of(ashore_dtype dtype) noexcept {
  switch (dtype) {
    case ASHORE_BOOL: return "bool";
    case ASHORE_INT8: return "int8";
    case ASHORE_INT16: return "int16";
    case ASHORE_INT32: return "int32";
    case ASHORE_INT64: return "int64";
    case ASHORE_UINT8: return "uint8";
    case ASHORE_UINT16: return "uint16";
    case ASHORE_UINT32: return "uint32";
    case ASHORE_UINT64: return "uint64";
    case ASHORE_FLOAT32: return "float32";
    case ASHORE_FLOAT64: return "float64";
  }
  return "?";
}

template <class T>
double read_as(const unsigned char* at, std::size_t element) noexcept {
  T value;
  std::memcpy(&value, at + element * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

// One element of a port as a number.
inline double number_at(const ashore_port& port, const unsigned char* base, std::size_t element) noexcept {
  const unsigned char* const at = base + port.offset;
  switch (port.dtype) {
    case ASHORE_BOOL:
    case ASHORE_UINT8: return read_as<std::uint8_t>(at, element);
    case ASHORE_INT8: return read_as<std::int8_t>(at, element);
    case ASHORE_INT16: return read_as<std::int16_t>(at, element);
    case ASHORE_INT32: return read_as<std::int32_t>(at, element);
    case ASHORE_INT64: return read_as<std::int64_t>(at, element);
    case ASHORE_UINT16: return read_as<std::uint16_t>(at, element);
    case ASHORE_UINT32: return read_as<std::uint32_t>(at, element);
    case ASHORE_UINT64: return read_as<std::uint64_t>(at, element);
    case ASHORE_FLOAT32: return read_as<float>(at, element);
    case ASHORE_FLOAT64: return read_as<double>(at, element);
  }
  return 0.0;
}

// Elements on their way from one array to another: places[i] is the caller's element that element i of the port is.
template <class From, class To>
void gather(const void* from, void* to, const std::vector<std::uint32_t>& places) noexcept {
  const From* const source = static_cast<const From*>(from);
  To* const target = static_cast<To*>(to);
  for (std::size_t i = 0; i < places.size(); ++i) target[i] = static_cast<To>(source[places[i]]);
}

template <class From, class To>
void scatter(const void* from, void* to, const std::vector<std::uint32_t>& places) noexcept {
  const From* const source = static_cast<const From*>(from);
  To* const target = static_cast<To*>(to);
  for (std::size_t i = 0; i < places.size(); ++i) target[places[i]] = static_cast<To>(source[i]);
}

using Move = void (*)(const void*, void*, const std::vector<std::uint32_t>&) noexcept;

struct Moves {
  Move same, other;  // between equal types, and for float with double the other way
};

struct Link {
  const void* from;
  void* to;
  Move move;
  std::vector<std::uint32_t> places;
  void run() const noexcept { move(from, to, places); }
};

// What the caller has, before it is known what it belongs to.
struct Array {
  std::string port;
  std::vector<std::string> names;
  void* values;
  std::size_t count;
  ashore_dtype dtype;
  Moves moves;
};

inline std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return "[" + text + "]";
}

inline bool has(const char* text, const char* part) { return text != nullptr && std::strstr(text, part) != nullptr; }

}  // namespace detail

// The names of the elements on a port's last axis; none if the package does not say.
inline std::vector<std::string> names_of(const ashore_port& port) {
  if (port.names == nullptr || port.rank < 1) return {};
  return {port.names, port.names + port.shape[port.rank - 1]};
}

// The joints of the package, in its order.
inline std::vector<std::string> joint_names(const ashore_contract& contract) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < contract.joint_count; ++i) {
    names.emplace_back(contract.joints[i].name);
  }
  return names;
}

// A compiled policy with its memory, in the package's own order. Most robots want a Bound.
class Policy {
 public:
  explicit Policy(const ashore_contract& contract) : contract_(&contract) {
    if (contract.abi_version != ASHORE_ABI_VERSION) {
      throw BindError("the library speaks version " + std::to_string(contract.abi_version) + " of the interface, ashore.hpp " +
                      std::to_string(ASHORE_ABI_VERSION) + "; compile the package again");
    }
    policy_ = room(contract.policy_size);
    step_in_ = room(contract.step_in_size);
    step_out_ = room(contract.step_out_size);
    substep_in_ = room(contract.substep_in_size);
    substep_out_ = room(contract.substep_out_size);
    contract.reset(policy_.get());  // of memory that is all zeros: that makes it a policy
  }

  const ashore_contract& contract() const noexcept { return *contract_; }
  bool has_substeps() const noexcept { return contract_->substep != nullptr; }

  // The structs of policy.h: ashore_NAME_step_in and so on.
  unsigned char* step_in() noexcept { return step_in_.get(); }
  unsigned char* step_out() noexcept { return step_out_.get(); }
  unsigned char* substep_in() noexcept { return substep_in_.get(); }
  unsigned char* substep_out() noexcept { return substep_out_.get(); }
  unsigned char* memory() noexcept { return policy_.get(); }

  void reset() noexcept { contract_->reset(policy_.get()); }
  ashore_status step() noexcept { return contract_->step(policy_.get(), step_in_.get(), step_out_.get()); }
  ashore_status substep() noexcept {  // only if has_substeps()
    return contract_->substep(policy_.get(), substep_in_.get(), substep_out_.get());
  }

 private:
  struct Free {
    std::size_t alignment;
    void operator()(unsigned char* at) const noexcept { ::operator delete(at, std::align_val_t{alignment}); }
  };
  using Room = std::unique_ptr<unsigned char, Free>;

  static Room room(std::size_t size) {
    constexpr std::size_t alignment = 64;  // of a cache line, and of everything in a struct
    const std::size_t wanted = (size + alignment) / alignment * alignment;
    Room made(static_cast<unsigned char*>(::operator new(wanted, std::align_val_t{alignment})), Free{alignment});
    std::memset(made.get(), 0, wanted);
    return made;
  }

  const ashore_contract* contract_;
  Room policy_{nullptr, Free{64}}, step_in_{nullptr, Free{64}}, step_out_{nullptr, Free{64}};
  Room substep_in_{nullptr, Free{64}}, substep_out_{nullptr, Free{64}};
};

// What a robot measures and what it accepts: arrays of the caller's, in the caller's own order.
//
// A port is given by its name in the package, or by its kind where only one input (or output) is of that kind. Names
// are those of the elements of its last axis, and may be left out only where the package has none or the order cannot
// be mistaken (no joints, no quaternions). Arrays have to stay where they are as long as the Bound lives.
class Robot {
 public:
  // The policy may read fewer joints than there are.
  template <class T>
  Robot& reads(std::string port, std::vector<std::string> names, const T* values, std::size_t count) {
    using U = std::remove_const_t<T>;
    // const is put back by Link, which only reads what is read.
    inputs_.push_back({std::move(port), std::move(names), const_cast<U*>(values), count, detail::dtype_of<U>(),
                       {&detail::gather<U, U>, other_gather<U>()}});
    return *this;
  }

  template <class T>
  Robot& reads(std::string port, const T* values, std::size_t count) {
    return reads(std::move(port), {}, values, count);
  }

  // Every element has to be driven by the policy.
  template <class T>
  Robot& writes(std::string port, std::vector<std::string> names, T* values, std::size_t count) {
    outputs_.push_back({std::move(port), std::move(names), values, count, detail::dtype_of<T>(),
                        {&detail::scatter<T, T>, other_scatter<T>()}});
    return *this;
  }

  template <class T>
  Robot& writes(std::string port, T* values, std::size_t count) {
    return writes(std::move(port), {}, values, count);
  }

  // An output that goes nowhere. Outputs of the kinds `action` and `observation` do so by themselves.
  Robot& unused(std::string port) {
    unused_.push_back(std::move(port));
    return *this;
  }

 private:
  friend class Bound;

  template <class T>
  static constexpr detail::Move other_gather() {
    if constexpr (std::is_same_v<T, float>) return &detail::gather<float, double>;
    else if constexpr (std::is_same_v<T, double>) return &detail::gather<double, float>;
    else return nullptr;
  }

  template <class T>
  static constexpr detail::Move other_scatter() {
    if constexpr (std::is_same_v<T, float>) return &detail::scatter<double, float>;
    else if constexpr (std::is_same_v<T, double>) return &detail::scatter<float, double>;
    else return nullptr;
  }

  std::vector<detail::Array> inputs_, outputs_;
  std::vector<std::string> unused_;
};

// A policy that drives a robot. Not for use by several threads at once.
//
// A call that fails trips the guard: nothing is written, and nothing more will be before the next reset(). The states
// of the policy are then as they were before the call, unless it was an output limit that tripped.
class Bound {
 public:
  static constexpr double unsaid = std::numeric_limits<double>::quiet_NaN();

  Bound(const ashore_contract& contract, const Robot& robot, const Guard& guard = {}) : policy_(contract), guard_(guard) {
    std::vector<std::string> problems;
    if (contract.batch != 1) {
      problems.push_back("it was compiled for " + std::to_string(contract.batch) + " robots at once; a robot is one");
    }
    if (guard.on_trip == Action::act) problems.push_back("guard: on_trip: expected hold, damp or stop, got act");
    if (!(guard.max_age_s > 0)) problems.push_back("guard: max_age_s: expected a number above 0");
    for (Rate* rate : {&step_, &substep_}) {
      const bool step = rate == &step_;
      rate->in = step ? policy_.step_in() : policy_.substep_in();
      rate->out = step ? policy_.step_out() : policy_.substep_out();
      rate->inputs = step ? contract.step_inputs : contract.substep_inputs;
      rate->input_count = step ? contract.step_input_count : contract.substep_input_count;
      rate->outputs = step ? contract.step_outputs : contract.substep_outputs;
      rate->output_count = step ? contract.step_output_count : contract.substep_output_count;
    }
    bind(robot.inputs_, true, problems);
    bind(robot.outputs_, false, problems);
    check_all_used(robot, problems);
    if (!problems.empty()) throw BindError(message(problems, robot));
    last_.action = guard_.on_trip;
    last_.cause = Cause::not_reset;
  }

  Bound(Bound&&) = default;
  Bound& operator=(Bound&&) = default;

  const ashore_contract& contract() const noexcept { return policy_.contract(); }

  // What the last call said. Once it has tripped, every call says this until reset().
  const Outcome& last() const noexcept { return last_; }

  // Whether the next tick() decides.
  bool due() const noexcept { return since_ == 0; }

  // Starts an episode: of the states of the policy. Going to the start is the robot's business.
  void reset() noexcept {
    policy_.reset();
    since_ = 0;
    last_ = Outcome{};
  }

  // Decides: takes the inputs, runs the policy once, writes the outputs. Every policy_dt_s.
  Outcome step(double age_s = unsaid) noexcept {
    if (fresh(age_s) && run(step_, true)) since_ = 0;
    return last_;
  }

  // Acts between decisions, in a package that has substeps. Every physics_dt_s.
  Outcome substep(double age_s = unsaid) noexcept {
    if (fresh(age_s)) run(substep_, false);
    return last_;
  }

  // Does what is due: decides in every `decimation`-th call, and acts in each if there are substeps. Call it every
  // physics_dt_s, instead of step() and substep().
  Outcome tick(double age_s = unsaid) noexcept {
    if (!fresh(age_s)) return last_;
    if (since_ == 0 && !run(step_, true)) return last_;
    if (policy_.has_substeps() && !run(substep_, false)) return last_;
    since_ = (since_ + 1) % static_cast<std::size_t>(contract().decimation);
    return last_;
  }

 private:
  struct Rate {
    unsigned char *in = nullptr, *out = nullptr;
    const ashore_port *inputs = nullptr, *outputs = nullptr;
    std::size_t input_count = 0, output_count = 0;
    std::vector<detail::Link> links, sinks;
  };

  // --- running --------------------------------------------------------------------------------------------------------

  // Whether nothing has tripped yet, and the measurements are not too old.
  bool fresh(double age_s) noexcept {
    if (!last_) return false;
    if (age_s <= guard_.max_age_s || (std::isnan(age_s) && std::isinf(guard_.max_age_s))) return true;
    return trip({guard_.on_trip, Cause::too_old, nullptr, 0, age_s, 0.0, guard_.max_age_s});
  }

  bool run(Rate& rate, bool step) noexcept {
    if (!step && !policy_.has_substeps()) return trip({guard_.on_trip, Cause::no_substeps, nullptr, 0, 0.0, 0.0, 0.0});
    for (const detail::Link& link : rate.links) link.run();
    if (guard_.limits && !within(rate.inputs, rate.input_count, rate.in, Cause::input_limit)) return false;
    const ashore_status status = step ? policy_.step() : policy_.substep();
    if (status != ASHORE_OK) return fail(status, rate);
    if (guard_.limits && !within(rate.outputs, rate.output_count, rate.out, Cause::output_limit)) return false;
    for (const detail::Link& sink : rate.sinks) sink.run();
    return true;
  }

  // NaN is not outside of a limit; the policy refuses it.
  bool within(const ashore_port* ports, std::size_t count, const unsigned char* base, Cause cause) noexcept {
    for (const ashore_port* port = ports; port != ports + count; ++port) {
      if (port->lower == nullptr && port->upper == nullptr) continue;
      for (std::size_t i = 0; i < port->count; ++i) {
        constexpr double open = std::numeric_limits<double>::infinity();
        const double value = detail::number_at(*port, base, i);
        const std::size_t place = i % detail::width_of(*port);
        const double lower = port->lower != nullptr ? port->lower[place] : -open;
        const double upper = port->upper != nullptr ? port->upper[place] : open;
        if (value < lower || value > upper) return trip({guard_.on_trip, cause, port, i, value, lower, upper});
      }
    }
    return true;
  }

  bool trip(const Outcome& outcome) noexcept {
    last_ = outcome;
    return false;
  }

  // The policy refused: which value it was, of the inputs, or of the outputs and then the states.
  bool fail(ashore_status status, const Rate& rate) noexcept {
    if (status == ASHORE_NOT_DECIDED) return trip({guard_.on_trip, Cause::not_decided, nullptr, 0, 0.0, 0.0, 0.0});
    int index = -1;
    std::size_t element = 0;
    contract().fault(policy_.memory(), &index, &element);
    const std::size_t place = index < 0 ? SIZE_MAX : static_cast<std::size_t>(index);
    if (status == ASHORE_BAD_INPUT) {
      const ashore_port* const port = place < rate.input_count ? &rate.inputs[place] : nullptr;
      const double value = port != nullptr ? detail::number_at(*port, rate.in, element) : 0.0;
      return trip({guard_.on_trip, Cause::not_finite_in, port, element, value, 0.0, 0.0});
    }
    const std::size_t state = place - rate.output_count;
    const ashore_port* const port = place < rate.output_count          ? &rate.outputs[place]
                                    : state < contract().state_count ? &contract().states[state]
                                                                       : nullptr;
    return trip({guard_.on_trip, Cause::not_finite_out, port, element, 0.0, 0.0, 0.0});
  }

  // --- binding --------------------------------------------------------------------------------------------------------

  // The ports of a direction that a name or a kind means: at most one of each rate.
  std::vector<std::pair<Rate*, const ashore_port*>> find(const std::string& asked, bool input, std::string& problem) {
    std::vector<std::pair<Rate*, const ashore_port*>> by_name, by_kind;
    for (Rate* rate : {&step_, &substep_}) {
      const ashore_port* const ports = input ? rate->inputs : rate->outputs;
      const std::size_t count = input ? rate->input_count : rate->output_count;
      for (std::size_t i = 0; i < count; ++i) {
        if (asked == ports[i].name) by_name.emplace_back(rate, &ports[i]);
        if (ports[i].kind != nullptr && asked == ports[i].kind) by_kind.emplace_back(rate, &ports[i]);
      }
    }
    if (!by_name.empty()) return by_name;
    const std::string what = input ? "input" : "output";
    if (by_kind.empty()) problem = "the package has no " + what + " of that name or kind";
    for (const auto& one : by_kind) {
      if (std::strcmp(one.second->name, by_kind.front().second->name) != 0) {
        problem = "several " + what + "s are of that kind, such as '" + by_kind.front().second->name + "' and '" +
                  one.second->name + "'; give the name of one";
      }
    }
    return problem.empty() ? by_kind : std::vector<std::pair<Rate*, const ashore_port*>>{};
  }

  void bind(const std::vector<detail::Array>& arrays, bool input, std::vector<std::string>& problems) {
    std::vector<std::string> bound;
    for (const detail::Array& array : arrays) {
      std::string problem;
      const auto found = find(array.port, input, problem);
      for (const auto& [rate, port] : found) {
        if (!problem.empty()) break;
        detail::Link link{array.values, nullptr, nullptr, {}};
        problem = match(*port, array, input, link);
        void* const mine = (input ? rate->in : rate->out) + port->offset;
        link.from = input ? array.values : mine;
        link.to = input ? mine : array.values;
        if (problem.empty()) (input ? rate->links : rate->sinks).push_back(std::move(link));
      }
      for (const std::string& other : bound) {
        if (!found.empty() && other == found.front().second->name) problem = "it is given more than once";
      }
      if (!found.empty()) bound.emplace_back(found.front().second->name);
      if (!problem.empty()) problems.push_back((input ? "reads '" : "writes '") + array.port + "': " + problem);
    }
    (input ? bound_inputs_ : bound_outputs_) = bound;
  }

  // Which element of the array is which of the port's; or why they do not fit.
  static std::string match(const ashore_port& port, const detail::Array& array, bool input, detail::Link& link) {
    const bool floats = (port.dtype == ASHORE_FLOAT32 || port.dtype == ASHORE_FLOAT64) &&
                        (array.dtype == ASHORE_FLOAT32 || array.dtype == ASHORE_FLOAT64);
    if (array.dtype != port.dtype && !floats) {
      return std::string("it is ") + detail::name_of(port.dtype) + ", the robot's array is " + detail::name_of(array.dtype);
    }
    if (array.values == nullptr) return "the robot's array is a null pointer";
    link.move = array.dtype == port.dtype ? array.moves.same : array.moves.other;
    const std::vector<std::string> wanted = names_of(port);
    const std::size_t width = detail::width_of(port), rows = port.count / width;
    std::vector<std::uint32_t> order;
    if (array.names.empty()) {
      const bool mistakable = detail::has(port.kind, "/joint/") || is_quaternion(port) ||
                              (port.kind != nullptr && (!std::strcmp(port.kind, "kp") || !std::strcmp(port.kind, "kd")));
      if (mistakable && !wanted.empty()) return "give the names of its elements; the package has " + detail::listed(wanted);
      for (std::size_t i = 0; i < width; ++i) order.push_back(static_cast<std::uint32_t>(i));
    } else if (wanted.empty()) {
      return "the package names no elements, so the robot's names " + detail::listed(array.names) + " cannot be checked; leave them out";
    } else {
      const std::string problem = by_name(wanted, array.names, input, is_quaternion(port), order);
      if (!problem.empty()) return problem;
    }
    const std::size_t stride = array.names.empty() ? width : array.names.size();
    if (array.count != rows * stride) {
      return "expected an array of " + std::to_string(rows * stride) + " elements, the robot's has " +
             std::to_string(array.count) + "; nothing is broadcast";
    }
    for (std::size_t row = 0; row < rows; ++row) {
      for (const std::uint32_t place : order) link.places.push_back(static_cast<std::uint32_t>(row * stride) + place);
    }
    return "";
  }

  static bool is_quaternion(const ashore_port& port) {
    return (detail::has(port.kind, "/rotation") || detail::has(port.kind, "/orientation")) && port.rank > 0 &&
           port.shape[port.rank - 1] == 4;
  }

  static std::string by_name(const std::vector<std::string>& wanted, const std::vector<std::string>& there, bool input,
                             bool quaternion, std::vector<std::uint32_t>& order) {
    const auto plain = [quaternion](const std::string& name) {  // w and qw are the same
      return quaternion && name.size() > 1 && name[0] == 'q' ? name.substr(1) : name;
    };
    std::vector<std::string> missing, extra, twice;
    for (std::size_t i = 0; i < there.size(); ++i) {
      bool known = false;
      for (const std::string& name : wanted) known = known || plain(name) == plain(there[i]);
      if (!known) extra.push_back(there[i]);
      for (std::size_t j = 0; j < i; ++j) {
        if (plain(there[j]) == plain(there[i])) twice.push_back(there[i]);
      }
    }
    for (const std::string& name : wanted) {
      std::size_t place = 0;
      while (place < there.size() && plain(there[place]) != plain(name)) ++place;
      if (place == there.size()) missing.push_back(name);
      order.push_back(static_cast<std::uint32_t>(place));
    }
    std::string problem;
    if (!twice.empty()) problem += detail::listed(twice) + " stands there more than once; ";
    if (!missing.empty()) problem += detail::listed(missing) + " is missing on the robot; ";
    if (!extra.empty() && !input) problem += detail::listed(extra) + " is driven by nothing; ";
    return problem.empty() ? "" : problem + "the package has " + detail::listed(wanted) + ", the robot " + detail::listed(there);
  }

  void check_all_used(const Robot& robot, std::vector<std::string>& problems) const {
    const auto in = [](const std::vector<std::string>& names, const char* name) {
      for (const std::string& one : names) {
        if (one == name) return true;
      }
      return false;
    };
    std::vector<std::string> seen, outputs;
    for (const Rate* rate : {&step_, &substep_}) {
      for (std::size_t i = 0; i < rate->input_count; ++i) {
        const char* const name = rate->inputs[i].name;
        if (!in(bound_inputs_, name) && !in(seen, name)) {
          problems.push_back(std::string("input '") + name + "': nobody gives it");
          seen.emplace_back(name);
        }
      }
      for (std::size_t i = 0; i < rate->output_count; ++i) {
        const ashore_port& port = rate->outputs[i];
        outputs.emplace_back(port.name);
        const bool idle = port.kind != nullptr && (!std::strcmp(port.kind, "action") || !std::strcmp(port.kind, "observation"));
        if (!idle && !in(bound_outputs_, port.name) && !in(robot.unused_, port.name)) {
          problems.push_back(std::string("output '") + port.name + "': it goes nowhere; if that is meant, say unused(\"" +
                             port.name + "\")");
        }
      }
    }
    for (const std::string& name : robot.unused_) {
      if (!in(outputs, name.c_str())) problems.push_back("unused '" + name + "': the package has no such output");
    }
  }

  std::string message(const std::vector<std::string>& problems, const Robot& robot) const {
    std::string text = std::string("policy '") + contract().name + "' does not fit the robot:";
    for (const std::string& problem : problems) text += "\n- " + problem;
    text += "\nthe policy has:";
    for (const Rate* rate : {&step_, &substep_}) {
      const std::string call = rate == &step_ ? "step" : "substep";
      for (std::size_t i = 0; i < rate->input_count; ++i) text += described(call + " input ", rate->inputs[i]);
      for (std::size_t i = 0; i < rate->output_count; ++i) text += described(call + " output ", rate->outputs[i]);
    }
    text += "\nthe robot has:";
    for (const detail::Array& one : robot.inputs_) text += described("reads ", one);
    for (const detail::Array& one : robot.outputs_) text += described("writes ", one);
    return text;
  }

  static std::string described(const std::string& what, const ashore_port& port) {
    std::string text = "\n  " + what + port.name + ": " + (port.kind != nullptr ? port.kind : "no kind");
    if (port.unit != nullptr) text += std::string(" in ") + port.unit;
    for (std::size_t i = 0; port.units != nullptr && i < detail::width_of(port); ++i) text += (i == 0 ? " in " : " ") + std::string(port.units[i]);
    if (port.frame != nullptr) text += std::string(", frame ") + port.frame;
    const std::vector<std::string> names = names_of(port);
    text += ", " + std::to_string(port.count) + " x " + detail::name_of(port.dtype);
    return names.empty() ? text : text + " " + detail::listed(names);
  }

  static std::string described(const std::string& what, const detail::Array& array) {
    std::string text = "\n  " + what + array.port + ": " + std::to_string(array.count) + " x " + detail::name_of(array.dtype);
    return array.names.empty() ? text : text + " " + detail::listed(array.names);
  }

  Policy policy_;
  Guard guard_;
  Rate step_, substep_;
  std::vector<std::string> bound_inputs_, bound_outputs_;
  std::size_t since_ = 0;  // ticks since the last decision, up to the decimation
  Outcome last_;
};

}  // namespace ashore

#endif  // ASHORE_HPP
