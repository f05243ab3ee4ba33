"""A mixture in the trainers' own formats: how each takes weights, and what its weights are."""
