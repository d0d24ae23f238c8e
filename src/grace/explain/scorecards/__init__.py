"""Scorecards: what each change of a row does alone, chosen pairs, and how well adding that up forecasts other changes.

scorecard     Scorecard, one row: curves of points, pairs, forecasts
points        makes them for many rows
additive      chooses pairs, and what several changes count, by greedy selection on edits
row_effects   the curves and pairs of some rows as arrays; pair_tables are tables over values of two features
edits         draws edits of rows, half of which change the decision
typical_rows  the forecast of a reader without an explanation
"""
