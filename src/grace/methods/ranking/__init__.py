"""The order in which features are tried: W_Gradient, W_Local, and W_Entropy around either.

gradient  by the gradient towards the nearest contrastive class
local     by a local model of nearby training rows
entropy   drops features that are redundant with an earlier one (SU > gamma)
"""
