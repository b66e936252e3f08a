"""Where skills come from: registries, sites, git, GitHub, OCI, MCP, local folders."""
