"""TPU slices by their names in Google Cloud, to compile for them without a TPU (extra `tpu`)."""

import importlib.util
import math
import os
import re
from collections.abc import Sequence
from typing import Any

import jax
from jax.experimental import topologies

from transformer.files.reading import reason_of

SQUARES = "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16"
CUBES = "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16"


# By the first part of a slice's name: the arrangements of chips that Google Cloud offers, and what
# the number in a name as v4-8 counts for each chip: 2 where it counts cores.
GENERATIONS = {
    "v2": ("2x2 4x4 8x8 8x16 16x16", 2),
    "v3": ("2x2 4x4 4x8 8x8 8x16 16x16 16x32 32x32", 2),
    "v4": (CUBES, 2),
    "v5e": (SQUARES, 1),
    "v5litepod": (SQUARES, 1),  # the name of a v5e in accelerator types
    "v5p": (CUBES, 2),
    "v6e": (SQUARES, 1),
    "tpu7x": (CUBES, 2),
}
MEGACORE = "v4", "v5p"  # the two cores of a chip are one device, which libtpu must be told


def find_slice(name: str) -> tuple[str, dict[str, Any]]:
    """Returns libtpu's name of a slice, as "v5e:4x4", and the options that it needs.

    name: an accelerator type, as "v5litepod-16", or a shape, as "v5e:4x4". The number in a type
    counts chips for v5e and v6e, and TensorCores, of which a chip has two, for the others: v4-8 is
    2x2x1 chips. Raises ValueError for a name that is neither.
    """
    is_type = "-" in name
    family, _, size = name.partition("-" if is_type else ":")
    expected = f"--topology must be a TPU slice such as v5litepod-16 or v5e:4x4, not '{name}'"
    if family not in GENERATIONS:
        raise ValueError(f"{expected}; its first part is one of {', '.join(GENERATIONS)}.")
    offered, cores_per_chip = GENERATIONS[family]
    shapes = {
        str(math.prod(map(int, shape.split("x"))) * cores_per_chip): shape
        for shape in offered.split()
    }
    shape = shapes.get(size, "") if is_type else size
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){1,2}", shape):
        known = ", ".join(f"{family}-{number} ({shape})" for number, shape in shapes.items())
        raise ValueError(f"{expected}; those of {family} are {known}.")
    options: dict[str, Any] = {}
    if family in MEGACORE:
        options["chip_config_name"] = "megacore"
    if shape == "1x1" or (shape == "2x4" and is_type):  # all chips belong to one host
        options["chips_per_host_bounds"] = (*map(int, shape.split("x")), 1)
    return f"{family.replace('litepod', 'e')}:{shape}", options


def topology_devices(name: str) -> Sequence[jax.Device]:
    """Returns the devices of a slice that `find_slice` knows, for compiling only.

    It sets environment variables for libtpu and makes the CPU the platform of JAX. Raises
    ValueError if libtpu is not installed or does not know the slice.
    """
    topology_name, options = find_slice(name)
    if importlib.util.find_spec("libtpu") is None:
        raise ValueError(
            "--topology needs the TPU compiler: pip install -e '.[tpu]' (no TPU is needed)."
        )
    os.environ |= {
        "TPU_SKIP_MDS_QUERY": "1",  # there is no TPU machine to ask,
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",  # nor a chip that another process may hold
        "TPU_WORKER_HOSTNAMES": "localhost",  # and the next two only spare warnings
        "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    }
    jax.config.update("jax_platforms", "cpu")
    try:
        return topologies.get_topology_desc(topology_name, "tpu", **options).devices
    except Exception as error:  # from C++, as several types
        raise ValueError(
            f"The TPU compiler has no slice {name} ({reason_of(error)}); name another "
            f"with --topology."
        ) from None
