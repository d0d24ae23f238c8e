"""From rows to explanations: the explainer, its results, and how both are saved.

explainer     Explainer: model, schemas, background, settings; `explain`
batching      goes through rows in chunks within a memory budget; counts queries
solve         method, polish, proof and recheck of a chunk; alternatives
explanations  Explanations, a batch; details computes and caches what its texts need
explanation   Explanation, one answer; explanation_json reads it back
changes       the changed cells of a row and remarks about it
spans         the range in which a changed value may lie
diagnosis     why a row has no answer: limits that would have to be lifted
proof_record  what was proven, and under which limits
metrics       the paper's measures
answer_table  a batch as a table, one line per answer
store         saves and loads explainers; saved_header and saved_files are the parts on disk
audit_record  a record of an answer that can be replayed
"""
