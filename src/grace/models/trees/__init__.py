"""Ensembles of trees, read exactly from their libraries, on the features of a schema.

nodes             Nodes: the splits and leaves of an ensemble as arrays
reading           read_trees: the nodes of a model, by its library
sklearn_reader    trees, forests, bags and votes of scikit-learn; sklearn_tree reads one tree
sklearn_boosting  its GradientBoosting and HistGradientBoosting
xgboost_reader    XGBoost
lightgbm_reader   LightGBM
catboost_reader   CatBoost
additive_reader   explainable boosting machines of interpret
step_functions    linear models of bins and categories
own_classes       whether a model is of a class of its library, unchanged
assembly          puts nodes together, from leaves and from other nodes
reference         what nodes predict, in plain numpy
binding           nodes on the features of a schema, through the preprocessing in front of them; single_cuts replaces
                  splits that cut a number several times
ensemble          TreeEnsemble: bound trees, their link and their rounding; compiled holds the arrays
"""
