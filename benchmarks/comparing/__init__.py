"""The questions that `compare_commits.py` asks two commits, and what it keeps of the answers."""
