"""Explanations in words: how precisely a difference is said, the vocabulary of a schema, and the languages."""
