"""The devices of this machine: accelerators, their peak speed, CPU cores as devices."""

import glob
import importlib.util
import os
from contextlib import suppress

import jax

# Dense bfloat16 peak of a device as JAX counts devices, TFLOP/s, and its memory, GiB; by the
# makers' data sheets, by a part of `device_kind`. The first that fits counts.
CHIPS = {
    "TPU v2": (22.5, 8),
    "TPU v3": (61.5, 16),
    "TPU v4": (275, 32),
    "TPU v5 lite": (197, 16),
    "TPU v5e": (197, 16),
    "TPU v5": (459, 95),
    "TPU v6": (918, 32),
    "V100": (125, 32),
    "A100-SXM4-40GB": (312, 40),
    "A100-PCIE-40GB": (312, 40),
    "A100": (312, 80),
    "H100 PCIe": (756, 80),
    "H100": (989, 80),
    "H200": (989, 141),
    "B200": (2250, 180),
    "L40S": (362, 48),
    "L40": (181, 48),
    "L4": (121, 24),
}


def chip(device_kind):
    """(peak TFLOP/s, GiB of memory) of a device, None if it is not known."""
    return next((values for name, values in CHIPS.items() if name in device_kind), None)


ACCELERATORS = {  # device files, and the packages with which JAX uses them
    "/dev/nvidia[0-9]*": ("jax_cuda12_plugin", "jax_cuda13_plugin"),
    "/dev/accel[0-9]*": ("libtpu",),
    "/dev/vfio/[0-9]*": ("libtpu",),
}


def check_accelerator(say, accelerators=ACCELERATORS):
    """ValueError if there is an accelerator here but JAX has quietly fallen back to the CPU.

    If JAX was installed without what an accelerator needs, that is only said.
    """
    is_meant = "cpu" in (jax.config.jax_platforms or "")
    found = {pattern: sorted(glob.glob(pattern)) for pattern in accelerators}
    found = {pattern: files[0] for pattern, files in found.items() if files}
    if not found or is_meant or jax.default_backend() != "cpu":
        return
    for pattern, file in found.items():
        if any(importlib.util.find_spec(package) for package in accelerators[pattern]):
            raise ValueError(
                f"There is an accelerator ({file}), but JAX cannot use it: another process may "
                f"hold it, or its driver be too old. Free it, or set JAX_PLATFORMS=cpu to run on "
                f"the CPU."
            )
    say(
        f"There is an accelerator ({next(iter(found.values()))}), but JAX is installed for the CPU "
        f"only; to use it: pip install -e '.[cuda12]' (or cuda13, tpu)."
    )


def use_cores_as_devices(most=8):
    """Each CPU core a device of JAX, up to `most`, unless the user chose or JAX has started.

    Small models search faster so: a batch on each core, where the threads of one would wait for
    each other. Large ones do not, as every core then reads all weights.
    """
    is_chosen = jax.config.jax_num_cpu_devices > 0 or "device_count" in os.environ.get(
        "XLA_FLAGS", ""
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if is_chosen or not cores:
        return
    with suppress(RuntimeError):  # JAX has started
        jax.config.update("jax_num_cpu_devices", min(cores, most))
