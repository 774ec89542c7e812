"""What touches what in a MuJoCo model: touch sensors, forces on bodies, and the contact sensors of mjlab."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ashore.deploy.mujoco.engine import XYZ, Data, Model, Reader, engine
from ashore.deploy.mujoco.names import Names
from ashore.package import Array
from ashore.runtime.robot import Signal

_KIND = "state/contact"
_FIELDS = {1: ("found", 1), 2: ("force", 3)}
"""What a contact sensor gives, by the bits of its `dataspec` -> the field, and how many numbers that is."""

_NET_FORCE = 3
"""The way of a contact sensor to put contacts together that gives forces in the world."""


def contact_readers(model: Model, known: Names) -> dict[str, Reader]:
    """`touch` of all touch sensors, `body_contact_force` of all bodies, and mjlab's ``SENSOR.found`` and ``.force``."""
    made = {**_touch(model, known), **_sensors(model, known)}
    bodies = {name: index for name, index in known.all("body").items() if index}
    if bodies:
        signal = Signal(_KIND, XYZ, "N", "world", rows=tuple(bodies))
        made["body_contact_force"] = Reader(signal, _forces(model, np.array([*bodies.values()])), derived=True)
    return made


def _touch(model: Model, known: Names) -> dict[str, Reader]:
    kind = engine().mjtSensor.mjSENS_TOUCH
    found = {known.short("sensor", one): one for one in range(model.nsensor) if model.sensor_type[one] == kind}
    found.pop("", None)
    if not found:
        return {}
    places = model.sensor_adr[[*found.values()]].copy()
    return {"touch": Reader(Signal(_KIND, tuple(found), "N"), lambda data: data.sensordata[places], derived=True)}


def _sensors(model: Model, known: Names) -> dict[str, Reader]:
    """The contact sensors that mjlab makes: one for each body or geom and field, called ``SENSOR_BODY_FIELD``."""
    kind = getattr(engine().mjtSensor, "mjSENS_CONTACT", None)
    if kind is None:  # an older MuJoCo
        return {}
    groups: dict[tuple[str, str], dict[str, int]] = {}
    for index in range(model.nsensor):
        at, field_of = int(model.sensor_objid[index]), _FIELDS.get(int(model.sensor_intprm[index, 0]))
        if model.sensor_type[index] != kind or at < 0 or field_of is None or model.sensor_dim[index] != field_of[1]:
            continue
        which = "geom" if model.sensor_objtype[index] == engine().mjtObj.mjOBJ_GEOM else "body"
        sensor, name = known.full("sensor", index), known.full(which, at)
        group = sensor.removesuffix(f"_{name.partition('/')[2] or name}_{field_of[0]}")
        if group != sensor:
            groups.setdefault((group, field_of[0]), {})[known.short(which, at)] = index
    made: dict[str, Reader] = {}
    for (group, field), found in groups.items():
        ids = [*found.values()]
        places = model.sensor_adr[ids][:, None] + np.arange(3 if field == "force" else 1)
        if field == "force":
            frame = "world" if (model.sensor_intprm[ids, 1] == _NET_FORCE).all() else "contact"
            signal = Signal(_KIND, XYZ, "N", frame, rows=tuple(found))
        else:
            signal, places = Signal(_KIND, tuple(found), "1"), places[:, 0]
        made[f"{group}.{field}"] = Reader(signal, _sensordata(places), derived=True)
    return made


def _sensordata(places: Array) -> Callable[[Data], Array]:
    return lambda data: data.sensordata[places]


def _forces(model: Model, bodies: Array) -> Callable[[Data], Array]:
    """The sum of all contact forces on each body, in the world."""
    force_of, wrench = engine().mj_contactForce, np.zeros(6)

    def read(data: Data) -> Array:
        total = np.zeros((model.nbody, 3))
        for index, contact in enumerate(data.contact[: data.ncon]):
            if min(contact.geom) < 0:  # of something soft, which is no body
                continue
            force_of(model, data, index, wrench)
            first, second = model.geom_bodyid[contact.geom]
            push = wrench[:3] @ contact.frame.reshape(3, 3)  # the frame has its axes as rows
            total[second] += push
            total[first] -= push
        return total[bodies]

    return read
