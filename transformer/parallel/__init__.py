"""Maps work over devices and hosts."""
