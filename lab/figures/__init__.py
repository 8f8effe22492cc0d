"""Figures as data: one builder a figure, made from traces and ledgers, drawn by the player."""
