"""Explanations in words.

sentence    the sentence, notes and reasons of an explanation
decisions   texts about how a model decides: profiles, reasons, what suffices; decision_facts is their content
sentence_patterns  the sentences of many answers, with gaps for their numbers, which exact_numbers writes
precision   the precision with which a difference is stated
room        what is said about the region of an answer
vocabulary  the words of a schema in a language; predicted numbers in words
languages/  one package per language
"""
