"""Access: bearer tokens with roles in scopes, kept as hashes in a file."""
