"""Rankings: which features to change first. W_Gradient, W_Local, and W_Entropy around either."""
