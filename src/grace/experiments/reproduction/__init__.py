"""The paper's experiments again, compared with its numbers, and programs that act on explanations as readers would.

paper       the numbers that the paper prints
plan        tables, runs and parts, and the store: one file per table, run and part
subject     the network and its explainer for one table and run
samples     accuracy, the main table, the effects of K and γ, the case study
released    the authors' released program, which differs from the paper
reading     parses texts of GRACE, LIME and SHAP; reader edits a row accordingly; simulation evaluates the edits by the
            network, and has SHAP in sentences
runs        computes a plan in several processes
tables      means over runs beside the paper's; page and figures show them
results     writes tables, page and figures
"""
