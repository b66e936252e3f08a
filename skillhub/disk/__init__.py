"""Files and folders on this machine: read within bounds, replaced whole, never followed through a link."""
