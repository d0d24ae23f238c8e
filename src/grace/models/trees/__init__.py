"""Ensembles of trees as their libraries hold them, read exactly.

nodes             Nodes: the splits and leaves of an ensemble as arrays
reading           read_trees: the nodes of a model, by its library
sklearn_reader    trees, forests, bags and votes of scikit-learn; sklearn_tree reads one tree
sklearn_boosting  its GradientBoosting and HistGradientBoosting
xgboost_reader    XGBoost
lightgbm_reader   LightGBM
catboost_reader   CatBoost
additive_reader   explainable boosting machines of interpret
own_classes       whether a model is of a class of its library, unchanged
assembly          puts nodes together, from leaves and from other nodes
reference         what nodes predict, in plain numpy
"""
