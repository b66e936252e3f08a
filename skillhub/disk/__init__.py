"""Files and folders on this machine: bounded reads, atomic writes, no link followed."""
