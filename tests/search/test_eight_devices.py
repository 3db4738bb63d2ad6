"""The tests of the search that need several devices, run again where there are eight fake ones."""

import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parents[1]
TESTS = [
    "inference/test_translator.py::test_more_devices_change_nothing",
    "search/test_continuous_batching.py::test_everyone_arrives_once_and_as_alone",
    "search/test_continuous_batching.py::test_lanes_that_differ_do_not_wait_for_each_other",
]


def test_sentences_find_the_same_on_eight_devices():
    """Catches rows that are dealt to the wrong device, and devices that wait for each other."""
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, "-m", "pytest", "-q", *(str(FOLDER / name) for name in TESTS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
