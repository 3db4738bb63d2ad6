"""Flags of XLA under which the tests compile in half the time and run slower code.

Fusions are emitted in the plain way, and a program is compiled as one part and not as 32.
"""

QUICK_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"


def xla_flags(num_devices):
    """Returns the value of XLA_FLAGS for a process with `num_devices` fake devices."""
    return f"--xla_force_host_platform_device_count={num_devices} {QUICK_COMPILE}"
