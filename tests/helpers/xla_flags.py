"""What makes the tests compile in half the time and run slower code.

Fusions are emitted in the plain way, and a program is compiled as one part and not as 32. Whatever
was compiled once is kept in the folder of JAX_COMPILATION_CACHE_DIR, which is to be set as well.
"""

CHEAP = {  # variables of the environment, to be set before jax is imported
    "JAX_PLATFORMS": "cpu",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",  # a third less to compile
}
QUICK_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"


def xla_flags(num_devices):
    """Returns the value of XLA_FLAGS for a process with `num_devices` fake devices."""
    return f"--xla_force_host_platform_device_count={num_devices} {QUICK_COMPILE}"
