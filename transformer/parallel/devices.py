"""The devices of this machine: accelerators and their speed, CPU cores, programs kept for them."""

import glob
import importlib.util
import os
import pathlib
import platform
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import jax

from transformer.console import say
from transformer.files.storage import is_remote

MIN_COMPILE_SECONDS = 0.05  # programs that compile faster are not kept
MAX_BYTES = 2**29  # thousands of programs; JAX reads the date of each when it adds one


class Chip(NamedTuple):
    """What a device can do, by its maker's data sheet, as JAX counts devices."""

    peak_tflops: float  # dense products of bfloat16, or what computes them; TFLOP/s
    memory_gib: int


# Keyed by a part of `device_kind`; the first match counts.
CHIPS = {
    "TPU v2": Chip(22.5, 8),
    "TPU v3": Chip(61.5, 16),
    "TPU v4": Chip(275, 32),
    "TPU v5 lite": Chip(197, 16),
    "TPU v5e": Chip(197, 16),
    "TPU v5": Chip(459, 95),
    "TPU v6": Chip(918, 32),
    "TPU7x": Chip(1153.5, 96),  # one of the two devices of a chip
    "V100": Chip(15.7, 32),  # in float32: its tensor cores multiply float16 (125), not bfloat16
    "A100-SXM4-40GB": Chip(312, 40),
    "A100-PCIE-40GB": Chip(312, 40),
    "A100": Chip(312, 80),
    "H100 PCIe": Chip(756, 80),
    "H100": Chip(989, 80),
    "H200": Chip(989, 141),
    "B200": Chip(2250, 180),
    "L40S": Chip(362, 48),
    "L40": Chip(181, 48),
    "L4": Chip(121, 24),
}


def find_chip(device_kind: str) -> Chip | None:
    """Returns the `Chip` of a device by its `device_kind`, None if it is not known."""
    return next((chip for name, chip in CHIPS.items() if name in device_kind), None)


def peak_flops(devices: Sequence[jax.Device]) -> float:
    """Returns the FLOP/s of equal devices together; 0 if they are not known."""
    chip = find_chip(devices[0].device_kind)
    return chip.peak_tflops * 1e12 * len(devices) if chip else 0.0


ACCELERATORS = {  # device files, and the packages with which JAX uses them
    "/dev/nvidia[0-9]*": ("jax_cuda12_plugin", "jax_cuda13_plugin"),
    "/dev/accel[0-9]*": ("libtpu",),
    "/dev/vfio/[0-9]*": ("libtpu",),  # and any other PCI device that is passed through
}
IOMMU_GROUPS = "/sys/kernel/iommu_groups"  # what is passed through, by the numbers of /dev/vfio
GOOGLE = "0x1ae0"  # the vendor of a PCI device, as Linux says it


def check_accelerator() -> None:
    """Raises ValueError if this machine has an accelerator but JAX has fallen back to the CPU.

    Says so if JAX was installed without the package for the accelerator.
    """
    # pyrefly: ignore[missing-attribute]  # jax.config makes its attributes at run time
    is_cpu_chosen = "cpu" in (jax.config.jax_platforms or "")
    found = {p: sorted(filter(_may_be_accelerator, glob.glob(p))) for p in ACCELERATORS}
    files = {pattern: files[0] for pattern, files in found.items() if files}
    if not files or is_cpu_chosen or jax.default_backend() != "cpu":
        return
    for pattern, file in files.items():
        if any(importlib.util.find_spec(package) for package in ACCELERATORS[pattern]):
            raise ValueError(
                f"There is an accelerator ({file}), but JAX cannot use it: another process may "
                f"hold it, or its driver be too old. Free it, or set JAX_PLATFORMS=cpu."
            )
    say(
        f"There is an accelerator ({', '.join(files.values())}), but JAX is installed for the CPU "
        f"only; to use it: pip install -e '.[cuda12]' (or cuda13, tpu)."
    )


def _may_be_accelerator(file: str) -> bool:
    """Whether a device file may be an accelerator's: those in /dev/vfio are if Google made them."""
    if os.path.basename(os.path.dirname(file)) != "vfio":
        return True
    vendors = glob.glob(f"{IOMMU_GROUPS}/{os.path.basename(file)}/devices/*/vendor")
    return any(pathlib.Path(vendor).read_text().strip() == GOOGLE for vendor in vendors)


def host_device() -> jax.Device:
    """Returns a device of this host's memory; one of JAX's own if JAX_PLATFORMS leaves out "cpu".

    Arrays that are only written to a disk need no memory of an accelerator.
    """
    with suppress(RuntimeError):  # there is no such backend
        return jax.local_devices(backend="cpu")[0]
    return jax.local_devices()[0]


def use_cores_as_devices(num_cores: int) -> None:
    """Makes up to 8 CPU cores devices of JAX, unless the user chose a number or JAX has started.

    Small models search faster with a batch on each core than with one batch on the threads of all,
    which wait for each other. Large models do not, as every core then reads all weights.
    """
    # pyrefly: ignore[missing-attribute]  # as above
    is_chosen = jax.config.jax_num_cpu_devices > 0
    if not is_chosen and "device_count" not in os.environ.get("XLA_FLAGS", ""):
        with suppress(RuntimeError):  # JAX has started
            jax.config.update("jax_num_cpu_devices", min(num_cores, 8))


def keep_compiled_programs() -> None:
    """Turns on JAX's cache of compiled programs, in a folder in XDG_CACHE_HOME (~/.cache).

    JAX_COMPILATION_CACHE_DIR or jax.config may name another folder, and
    JAX_ENABLE_COMPILATION_CACHE=false turns it off. Programs are run unchecked: if the folder
    cannot be made, or belongs to another user, that is said and nothing is kept.
    """
    # pyrefly: ignore[missing-attribute]: jax makes these attributes when it is imported
    named, is_on = jax.config.jax_compilation_cache_dir, jax.config.jax_enable_compilation_cache
    if not is_on or (named and is_remote(named)):
        return
    try:
        if named:
            folder = pathlib.Path(named)
        else:  # for this machine: those that share a home may have other processors
            home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
            folder = home / "transformer-jax" / f"jax-{jax.__version__}-{platform.node()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise OSError(f"{folder} belongs to another user")
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        say(f"compiled programs are not kept for the next start: {error}")
        jax.config.update("jax_compilation_cache_dir", None)
        return
    if named:
        return
    # A process that is killed leaves a program without a time of last use; JAX then keeps no more.
    for program in folder.glob("*-cache"):
        if not program.with_name(program.name.removesuffix("-cache") + "-atime").exists():
            program.unlink(missing_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", MAX_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
