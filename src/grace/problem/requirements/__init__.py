"""What answers have to satisfy beyond the goal. Each wraps the model and the goal of a problem.

combined      all requirements of a call
robust        answers that hold for further models
plausible     answers that are typical of their new class
consequences  answers that keep rules, and features that follow others
dependence    regressions by which features follow
"""
