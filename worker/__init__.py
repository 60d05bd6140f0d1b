"""Carries out one attempt of one task, and nothing else."""
