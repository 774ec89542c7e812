// A robot that MuJoCo simulates, by its C API: joints by name, a floating base, sensors, servos and motors.
// It does what ashore.deploy.MujocoRobot does in Python, for the robots of the examples.
#pragma once

#include <mujoco/mujoco.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

class MujocoRobot {
 public:
  // `prefix` is what the names of the robot begin with in the model, such as "robot/"; the package knows them without.
  MujocoRobot(const char* path, std::string prefix) : prefix_(std::move(prefix)) {
    char error[1000] = "";
    const bool binary = std::strlen(path) > 4 && !std::strcmp(path + std::strlen(path) - 4, ".mjb");
    model_.reset(binary ? mj_loadModel(path, nullptr) : mj_loadXML(path, nullptr, error, sizeof error));
    if (!model_) throw std::runtime_error(std::string(path) + ": " + error);
    data_.reset(mj_makeData(model_.get()));
    for (int joint = 0; joint < model_->njnt; ++joint) {
      const int type = model_->jnt_type[joint];
      if (type == mjJNT_FREE && base_ < 0) base_ = joint;
      if ((type != mjJNT_HINGE && type != mjJNT_SLIDE) || name(mjOBJ_JOINT, joint).empty()) continue;
      names.push_back(name(mjOBJ_JOINT, joint));
      joints_.push_back(joint);
    }
    position.resize(names.size());
    velocity.resize(names.size());
    for (int actuator = 0; actuator < model_->nu; ++actuator) {
      Drive drive{actuator, model_->actuator_trnid[2 * actuator], 0, 0, INFINITY,
                  model_->actuator_biastype[actuator] == mjBIAS_NONE};
      driven.push_back(name(mjOBJ_JOINT, drive.joint));
      drives_.push_back(drive);
    }
    target.resize(driven.size());
    effort.resize(driven.size());
    sensors.resize(static_cast<std::size_t>(model_->nsensordata));
  }

  std::vector<std::string> names;               // of the hinges and slides, in the order of the model
  std::vector<double> position, velocity;       // measured, likewise
  std::vector<std::string> driven;              // the joints that have an actuator, in the order of the actuators
  std::vector<double> target, effort;           // asked for, likewise
  std::vector<double> sensors;                  // measured, in the order of the model
  double gravity[3] = {}, angular_velocity[3] = {}, linear_velocity[3] = {};  // of the base, in its axes

  const mjModel& model() const { return *model_; }
  const mjData& data() const { return *data_; }

  // Where a sensor is in `sensors`, or -1.
  int sensor(const std::string& called, int& width) const {
    for (const std::string& full : {called, prefix_ + called}) {
      const int id = mj_name2id(model_.get(), mjOBJ_SENSOR, full.c_str());
      if (id >= 0) {
        width = model_->sensor_dim[id];
        return model_->sensor_adr[id];
      }
    }
    return -1;
  }

  // Takes over gains and the effort limit of one joint; NAN is what the package does not say.
  void configure(const std::string& joint, double kp, double kd, double limit, double start) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == joint && !std::isnan(start)) starts_.emplace_back(model_->jnt_qposadr[joints_[i]], start);
    }
    for (std::size_t i = 0; i < driven.size(); ++i) {
      if (driven[i] != joint) continue;
      Drive& drive = drives_[i];
      mjtNum* const gain = model_->actuator_gainprm + mjNGAIN * drive.actuator;
      mjtNum* const bias = model_->actuator_biasprm + mjNBIAS * drive.actuator;
      drive.kp = std::isnan(kp) ? 0 : kp;
      drive.kd = std::isnan(kd) ? 0 : kd;
      if (!std::isnan(limit)) drive.limit = limit;  // which replaces the actuator's; targets of servos are not clipped
      if (!drive.motor || !std::isnan(limit)) model_->actuator_ctrllimited[drive.actuator] = 0;
      if (drive.motor) {
        if (!std::isnan(limit)) model_->actuator_forcelimited[drive.actuator] = 0;
        continue;
      }
      if (!std::isnan(kp)) gain[0] = kp, bias[1] = -kp;
      if (!std::isnan(kd)) bias[2] = -kd;
      if (!std::isnan(limit)) {
        model_->actuator_forcelimited[drive.actuator] = 1;
        model_->actuator_forcerange[2 * drive.actuator] = -limit;
        model_->actuator_forcerange[2 * drive.actuator + 1] = limit;
      }
    }
  }

  // The start of an episode: the pose of the model with the default positions of the package, at rest.
  void reset(bool positions) {
    mj_resetData(model_.get(), data_.get());
    for (const auto& [address, value] : starts_) data_->qpos[address] = value;
    positions_ = positions;
    for (std::size_t i = 0; i < drives_.size(); ++i) {
      target[i] = data_->qpos[model_->jnt_qposadr[drives_[i].joint]];
      effort[i] = 0;
    }
  }

  void read() {
    apply();
    const std::vector<mjtNum> warm(data_->qacc_warmstart, data_->qacc_warmstart + model_->nv);
    mj_forward(model_.get(), data_.get());  // sensors are computed here
    mju_copy(data_->qacc_warmstart, warm.data(), model_->nv);  // and no later step is changed by that
    for (std::size_t i = 0; i < joints_.size(); ++i) {
      position[i] = data_->qpos[model_->jnt_qposadr[joints_[i]]];
      velocity[i] = data_->qvel[model_->jnt_dofadr[joints_[i]]];
    }
    mju_copy(sensors.data(), data_->sensordata, model_->nsensordata);
    if (base_ < 0) return;
    const mjtNum* const pose = data_->qpos + model_->jnt_qposadr[base_];
    const mjtNum* const speed = data_->qvel + model_->jnt_dofadr[base_];
    mjtNum back[4], down[3] = {model_->opt.gravity[0], model_->opt.gravity[1], model_->opt.gravity[2]};
    mju_negQuat(back, pose + 3);
    mju_normalize3(down);
    mju_rotVecQuat(gravity, down, back);
    mju_rotVecQuat(linear_velocity, speed, back);
    mju_copy3(angular_velocity, speed + 3);
  }

  void advance(int steps) {
    for (int step = 0; step < steps; ++step) {
      apply();
      mj_step(model_.get(), data_.get());
    }
  }

  // Whether the base stands, where there is one, and all is finite.
  bool upright() const {
    for (int i = 0; i < model_->nq; ++i) {
      if (!std::isfinite(data_->qpos[i])) return false;
    }
    if (base_ < 0) return true;
    const mjtNum* const quat = data_->qpos + model_->jnt_qposadr[base_] + 3;
    return 1 - 2 * (quat[1] * quat[1] + quat[2] * quat[2]) > std::cos(1.0);
  }

 private:
  struct Drive {
    int actuator, joint;
    double kp, kd, limit;
    bool motor;
  };
  struct Delete {
    void operator()(mjModel* one) const { mj_deleteModel(one); }
    void operator()(mjData* one) const { mj_deleteData(one); }
  };

  std::string name(int type, int id) const {
    const char* const full = mj_id2name(model_.get(), type, id);
    if (full == nullptr) return "";
    return std::strncmp(full, prefix_.c_str(), prefix_.size()) ? full : full + prefix_.size();
  }

  // A position servo computes its own force; that of a motor is computed here, at every physics step.
  void apply() {
    for (std::size_t i = 0; i < drives_.size(); ++i) {
      const Drive& one = drives_[i];
      if (!one.motor) {
        data_->ctrl[one.actuator] = target[i];
        continue;
      }
      double push = effort[i];
      if (positions_) {
        push += one.kp * (target[i] - data_->qpos[model_->jnt_qposadr[one.joint]]);
        push += one.kd * (0.0 - data_->qvel[model_->jnt_dofadr[one.joint]]);
      }
      const double force = model_->actuator_gear[6 * one.actuator] * model_->actuator_gainprm[mjNGAIN * one.actuator];
      data_->ctrl[one.actuator] = std::fmax(-one.limit, std::fmin(one.limit, push)) / force;
    }
  }

  std::string prefix_;
  std::unique_ptr<mjModel, Delete> model_;
  std::unique_ptr<mjData, Delete> data_;
  int base_ = -1;
  bool positions_ = false;
  std::vector<int> joints_;
  std::vector<Drive> drives_;
  std::vector<std::pair<int, double>> starts_;
};
