"""HTTP: the client, the hosts that a request may reach, credentials, downloads and their cache."""
