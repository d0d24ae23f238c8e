"""Proofs that no answer changes fewer features or lies nearer, and of regions in which the decision is the same, for
ReLU networks and ensembles of trees.

certificate     decides for each row whether an answer with at most k changes exists
verdicts        what it says
compiled        branch and bound for ReLU networks, row by row
host            a problem on a GPU moved to the host, where the compiled code is
distance_bound  a lower bound on the distance of answers
trees           the same for tree ensembles, by the branch and bound of `methods.trees`
transformed     the same where a network gets functions of numbers, by proofs about the values of those
boxes           whether a model decides the same everywhere in a box; tree_boxes for trees, compiled.boxes for networks
regions         grows such boxes around answers
sets            whether changes to some features alone reach a goal, set_boxes of all of them at once; minimal_sets
                finds all that do, sufficient what entails a prediction
warm_up         compiles what a model needs before the first question
"""
