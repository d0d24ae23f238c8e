"""Scripts that run a peer in an environment of its own; they know numpy, the peer and `protocol.py`, not GRACE."""
