"""Proofs that no answer changes fewer features or lies nearer, for ReLU networks.

certificate     decides for each row whether an answer with at most k changes exists
compiled        branch and bound on a CPU, row by row
prover          branch and bound on a GPU, all rows together
nodes           the nodes of the search, and the parts of their bounds
relaxation      linear bounds on a network over a node
distance_bound  a lower bound on the distance of answers
"""
