// What ashore.hpp promises, with the package `limb` of the tests. Usage: bound CASE
#include <ashore/limb/ashore.hpp>
#include <ashore/limb/policy.h>

#include <cstdlib>

static long allocations = 0;

#ifndef __SANITIZE_ADDRESS__  // which has a malloc of its own
extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* malloc(std::size_t size) noexcept {
  ++allocations;
  return __libc_malloc(size);
}
#endif

#define CHECK(what) \
  if (!(what)) std::printf("line %d: %s\n", __LINE__, #what), ++failures

namespace {

int failures = 0;
using Names = std::vector<std::string>;
const Names joints = {"elbow", "shoulder"};  // the package has them the other way round
const Names quaternion = {"qx", "qy", "qz", "qw"};

// A robot with everything that the package asks for, in an order and in types of its own.
struct Limb {
  double q[2] = {0.25, -0.5}, v[2] = {1.0, 2.0}, quat[4] = {0.1, 0.2, 0.3, 0.9};
  double feet[2][3] = {{0.3, 0.1, 0.2}, {0.6, 0.4, 0.5}};  // z x y of the left, then of the right
  float wish[3] = {0.5f, 0.25f, -1.0f};
  std::int64_t phase = 3;
  bool touch[2] = {true, false};  // right, left
  double torque[2] = {-7.0, -7.0};

  ashore::Robot robot() {
    ashore::Robot one;
    one.reads("state/joint/position", joints, q, 2).reads("v", joints, v, 2).reads("quat", quaternion, quat, 4);
    one.reads("feet", {"z", "x", "y"}, &feet[0][0], 6).reads("phase", &phase, 1);
    one.reads("touch", {"right", "left"}, touch, 2);
    one.reads("wish", wish, 3).writes("target/joint/effort", joints, torque, 2);
    return one;
  }
};

// The same by the structs of policy.h, in the order of the package.
struct Plain {
  ashore_limb policy{};
  ashore_limb_step_in in{};
  ashore_limb_step_out out{};
  ashore_limb_substep_in substep_in{};
  ashore_limb_substep_out substep_out{};

  Plain() { ashore_limb_reset(&policy); }

  void step(const Limb& limb) {
    for (int i = 0; i < 2; ++i) in.q[i] = static_cast<float>(limb.q[1 - i]);
    for (int i = 0; i < 4; ++i) in.quat[i] = static_cast<float>(limb.quat[(i + 3) % 4]);
    for (int i = 0; i < 3; ++i) in.wish[i] = limb.wish[i];
    for (int i = 0; i < 6; ++i) in.feet[i] = static_cast<float>(limb.feet[i / 3][(i + 1) % 3]);
    in.phase[0] = limb.phase;
    for (int i = 0; i < 2; ++i) in.touch[i] = limb.touch[1 - i];
    CHECK(ashore_limb_step(&policy, &in, &out) == ASHORE_OK);
  }

  void substep(const Limb& limb) {
    for (int i = 0; i < 2; ++i) substep_in.v[i] = static_cast<float>(limb.v[1 - i]);
    CHECK(ashore_limb_substep(&policy, &substep_in, &substep_out) == ASHORE_OK);
  }
};

bool same(const Limb& limb, const Plain& plain) {
  return limb.torque[0] == static_cast<double>(plain.substep_out.torque[1]) &&
         limb.torque[1] == static_cast<double>(plain.substep_out.torque[0]);
}

std::string told(const ashore::Outcome& outcome) {
  char text[200];
  outcome.describe(text, sizeof text);
  return text;
}

void order() {
  Limb limb;
  Plain plain;
  ashore::Bound bound(ashore_limb_contract, limb.robot());
  bound.reset();
  for (int i = 0; i < 40; ++i) {
    limb.q[0] += 0.01, limb.v[1] -= 0.02, limb.quat[2] *= -1.0, limb.wish[1] += 0.005f;
    limb.feet[1][2] += 0.01, limb.phase = i % 5, limb.touch[0] = i % 3 == 0, limb.touch[1] = i % 2 == 0;
    if (i == 22) {  // in the middle of a decision
      bound.reset();
      ashore_limb_reset(&plain.policy);
    }
    const bool decides = bound.due();
    CHECK(decides == (i < 22 ? i % 4 == 0 : (i - 22) % 4 == 0));
    if (decides) plain.step(limb);
    plain.substep(limb);
    CHECK(bound.tick());
    CHECK(same(limb, plain));
  }
  bound.reset();
  ashore_limb_reset(&plain.policy);
  for (int i = 0; i < 3; ++i) {  // the same by hand
    plain.step(limb);
    plain.substep(limb);
    CHECK(bound.step());
    CHECK(bound.substep());
    CHECK(same(limb, plain));
  }
}

void moved() {
  Limb limb;
  Plain plain;
  ashore::Bound first(ashore_limb_contract, limb.robot());
  ashore::Bound bound(std::move(first));
  bound.reset();
  plain.step(limb);
  plain.substep(limb);
  CHECK(bound.tick());
  CHECK(same(limb, plain));
}

void nothing_is_allocated() {
  static_assert(noexcept(std::declval<ashore::Bound&>().tick()) && noexcept(std::declval<ashore::Bound&>().reset()) &&
                noexcept(std::declval<ashore::Bound&>().step()) && noexcept(std::declval<ashore::Bound&>().substep()));
  Limb limb;
  const long before = allocations;
  ashore::Bound bound(ashore_limb_contract, limb.robot());
  CHECK(allocations > before);  // what counts is counted
  const long built = allocations;
  char text[200];
  for (int i = 0; i < 2000; ++i) {
    if (i % 50 == 0) bound.reset();
    limb.q[1] = i % 97 == 0 ? std::nan("") : 0.3;
    limb.v[1] = i % 61 == 0 ? 1e9 : 0.3;
    if (!bound.tick(0.001)) bound.last().describe(text, sizeof text);
  }
  CHECK(allocations == built);
}

void guard() {
  Limb limb;
  ashore::Guard guard;
  guard.on_trip = ashore::Action::damp;
  guard.max_age_s = 0.02;
  ashore::Bound bound(ashore_limb_contract, limb.robot(), guard);
  CHECK(bound.tick(0.0).cause == ashore::Cause::not_reset);
  CHECK(told(bound.last()) == "call reset() first");
  CHECK(limb.torque[0] == -7.0);

  bound.reset();
  CHECK(bound.substep(0.0).cause == ashore::Cause::not_decided);
  bound.reset();
  CHECK(bound.tick(0.02));
  const double asked = limb.torque[0];
  CHECK(asked != -7.0);
  limb.v[0] = 0.0;
  CHECK(!bound.tick(0.021));
  CHECK(bound.last().action == ashore::Action::damp);
  CHECK(bound.last().cause == ashore::Cause::too_old);
  CHECK(told(bound.last()) == "the oldest measurement is 0.021 s old; the most is 0.02 s");
  CHECK(limb.torque[0] == asked);
  CHECK(!bound.tick(0.0));  // it stays tripped
  CHECK(bound.last().cause == ashore::Cause::too_old);
  CHECK(limb.torque[0] == asked);
  bound.reset();
  CHECK(bound.last());
  CHECK(bound.tick().cause == ashore::Cause::too_old);  // nobody said how old
  CHECK(told(bound.last()) == "nobody said how old the measurements are; the most is 0.02 s");

  bound.reset();
  limb.q[0] = INFINITY;
  guard.limits = false;
  ashore::Bound open(ashore_limb_contract, limb.robot(), guard);
  open.reset();
  CHECK(open.tick(0.0).cause == ashore::Cause::not_finite_in);
  CHECK(told(open.last()) == "input 'q'[1] (elbow) is inf; expected a finite value");
  CHECK(std::string(ashore::name_of(open.last().action)) == "damp");
  open.reset();
  limb.q[0] = 0.0, limb.wish[2] = NAN;
  CHECK(open.step(0.0).cause == ashore::Cause::not_finite_in);
  CHECK(told(open.last()) == "input 'wish'[2] is nan; expected a finite value");
  limb.wish[2] = 0.0f;
  open.reset();
  CHECK(open.step(0.0));
  limb.v[1] = NAN;
  CHECK(open.substep(0.0).cause == ashore::Cause::not_finite_in);
  CHECK(told(open.last()) == "input 'v'[0] (shoulder) is nan; expected a finite value");
}

void results_that_are_not_finite() {
  Limb limb;
  ashore::Guard guard;
  guard.limits = false;
  ashore::Bound bound(ashore_limb_contract, limb.robot(), guard);
  bound.reset();
  CHECK(bound.tick());
  const double asked[] = {limb.torque[0], limb.torque[1]};
  for (int signs = 0; signs < 512 && bound.last(); ++signs) {  // until the products add up to too much
    const auto huge = [signs](int bit) { return (signs >> bit & 1) != 0 ? 3.4e38 : -3.4e38; };
    for (int i = 0; i < 2; ++i) limb.q[i] = huge(i);
    for (int i = 0; i < 4; ++i) limb.quat[i] = huge(2 + i);
    for (int i = 0; i < 3; ++i) limb.wish[i] = static_cast<float>(huge(6 + i));
    for (auto& foot : limb.feet) foot[0] = huge(8);
    if (bound.step()) bound.reset();
  }
  CHECK(bound.last().cause == ashore::Cause::not_finite_out);
  CHECK(told(bound.last()).find("would not be finite; the state is unchanged") != std::string::npos);
  CHECK(bound.last().port != nullptr);
  CHECK(limb.torque[0] == asked[0] && limb.torque[1] == asked[1]);
}

void limits() {
  Limb limb;
  ashore::Bound bound(ashore_limb_contract, limb.robot());
  bound.reset();
  limb.q[0] = -3.0;
  limb.q[1] = -100.0;  // the shoulder has no lower limit, and this is no NaN
  CHECK(bound.step());
  limb.q[1] = 0.0;
  limb.q[0] = -3.5;
  CHECK(bound.step().cause == ashore::Cause::input_limit);
  CHECK(told(bound.last()) == "input 'q'[1] (elbow) is -3.5, outside of -3 to 2");
  limb.q[0] = 0.0;
  bound.reset();
  CHECK(bound.tick());
  const double asked = limb.torque[1];
  limb.v[1] = -1000.0;
  CHECK(bound.tick().cause == ashore::Cause::output_limit);
  CHECK(bound.last().action == ashore::Action::hold);
  CHECK(told(bound.last()).rfind("output 'torque'[0] (shoulder) is ", 0) == 0);
  CHECK(told(bound.last()).find(", outside of -50 to 50") != std::string::npos);
  CHECK(limb.torque[1] == asked);
}

void misfit(const std::string& which) {
  Limb limb;
  ashore::Robot robot;
  int counts[2] = {0, 0}, phase = 0;
  Names names = joints;
  std::size_t count = 2;
  if (which == "missing") names = {"elbow", "sholder"};
  if (which == "twice") names = {"elbow", "shoulder", "elbow"}, count = 3;
  if (which == "count") count = 1;
  if (which == "nameless") names = {};
  if (which == "integers") robot.reads("q", names, counts, 2);
  else if (which != "unbound") robot.reads("q", names, limb.q, count);
  if (which == "again") robot.reads("state/joint/position", names, limb.q, count);
  robot.reads("v", joints, limb.v, 2).reads("quat", quaternion, limb.quat, 4);
  const Names wishes = which == "unknown_names" ? Names{"vx", "vy", "wz"} : Names{};
  robot.reads("wish", wishes, limb.wish, 3);
  const std::size_t feet = which == "rows" ? 3 : 6;
  robot.reads("feet", {"x", "y", "z"}, &limb.feet[0][0], feet).reads("touch", {"left", "right"}, limb.touch, 2);
  if (which == "narrow") robot.reads("phase", &phase, 1);
  else if (which == "fraction") robot.reads("phase", limb.q, 1);
  else robot.reads("phase", &limb.phase, 1);
  if (which == "unknown_port") robot.reads("joint_pos", joints, limb.q, 2);
  if (which == "null") robot.reads("state/joint/effort", joints, static_cast<double*>(nullptr), 2);
  double three[3] = {};
  if (which == "extra") robot.writes("torque", {"elbow", "wrist", "shoulder"}, three, 3);
  else if (which != "nowhere") robot.writes("torque", joints, limb.torque, 2);
  if (which == "unused") robot.unused("value");
  ashore::Guard guard;
  if (which == "guard") guard.on_trip = ashore::Action::act, guard.max_age_s = 0.0;
  ashore::Bound bound(ashore_limb_contract, robot, guard);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  if (which == "order") order();
  else if (which == "moved") moved();
  else if (which == "nothing_is_allocated") nothing_is_allocated();
  else if (which == "guard") guard();
  else if (which == "results_that_are_not_finite") results_that_are_not_finite();
  else if (which == "limits") limits();
  else if (which == "misfit") {
    try {
      misfit(argv[2]);
      std::printf("it fits\n");
    } catch (const ashore::BindError& error) {
      std::printf("%s\n", error.what());
    }
  } else {
    std::printf("there is no case '%s'\n", which.c_str());
    return 2;
  }
  return failures != 0;
}
