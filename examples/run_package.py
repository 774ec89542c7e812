"""Run a package in a control loop: numpy in, numpy out, no torch. Usage: run_package.py PKG

The robot here is two joints with a PD controller, simulated in numpy with the gains and rates of the package.
"""

import sys

import numpy as np

import ashore

policy = ashore.load(sys.argv[1])
timing, joints = policy.manifest.timing, policy.manifest.joints
assert timing is not None and timing.policy_dt_s is not None and timing.physics_dt_s is not None
kp = np.array([joint.kp for joint in joints], np.float32)
kd = np.array([joint.kd for joint in joints], np.float32)

position = np.array([[joint.default_position for joint in joints]], np.float32)
velocity = np.zeros_like(position)
command = np.array([[0.9, -0.2]], np.float32)

policy.reset()
for step in range(int(3.0 / timing.policy_dt_s)):
    out = policy.step({"joint_pos": position, "joint_vel": velocity, "command": command})
    for _ in range(timing.decimation):
        torque = kp * (out["joint_target"] - position) - kd * velocity
        velocity = velocity + np.float32(timing.physics_dt_s) * torque
        position = position + np.float32(timing.physics_dt_s) * velocity
    if step % 50 == 0:
        print(f"t = {step * timing.policy_dt_s:4.2f} s   joints at {np.round(position[0], 3)} rad")
print(f"asked for {command[0]}, reached {np.round(position[0], 3)} rad")
