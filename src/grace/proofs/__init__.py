"""Proofs that no answer changes fewer features or lies nearer, for ReLU networks."""
