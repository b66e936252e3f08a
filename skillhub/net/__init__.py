"""HTTP: the client, where a request may go, credentials, downloads and their cache."""
