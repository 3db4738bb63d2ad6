"""Descriptions of TPU slices, to compile for them without a TPU (needs the extra `tpu`)."""

import importlib.util
import os
from collections.abc import Sequence

import jax
from jax.experimental import topologies


def topology_devices(name: str) -> Sequence[jax.Device]:
    """Returns the devices of a slice such as "v5e:4x4", for compiling only.

    It sets environment variables for libtpu and makes the CPU the platform of JAX. Raises
    ValueError if libtpu is not installed or does not know the slice.
    """
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
        return topologies.get_topology_desc(platform="tpu", topology_name=name).devices
    except Exception as error:  # from C++, as several types
        raise ValueError(
            f"--topology must be a TPU slice such as v5e:4x4, v4:2x2x2 or v6e:2x4, not {name} "
            f"({str(error).splitlines()[0]})."
        ) from None
