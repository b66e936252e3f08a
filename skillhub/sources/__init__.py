"""Where skills come from: registries, sites, git, GitHub, OCI, local folders."""
